"""Rows of token ids of different lengths, stored in two flat arrays."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["TokenRows"]


class TokenRows(NamedTuple):
    """A ragged batch of token ids, stored flat, so that NumPy packs it without a loop.

    Row `i` is `values[starts[i] : starts[i] + lengths[i]]`. `len()` returns the
    number of rows.

    Args:
        values: int32 array `(total,)`. The ids of all rows, concatenated.
        lengths: int64 array `(rows,)`. The number of ids of each row.

    Example:
        >>> rows = TokenRows.from_lists([[5, 6, 7], [], [8]])
        >>> rows.starts
        array([0, 3, 3])
        >>> rows.take([2, 0]).to_lists()
        [[8], [5, 6, 7]]
    """

    values: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[int]]) -> "TokenRows":
        """Concatenate lists of ids.

        Args:
            rows: Lists (or other sequences) of int.

        Returns:
            The rows.
        """
        rows = list(rows)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        total = int(lengths.sum())
        values = np.fromiter(chain.from_iterable(rows), np.int32, total)
        return cls(values, lengths)

    @classmethod
    def from_arrays(cls, rows: Sequence[npt.NDArray[np.int32]]) -> "TokenRows":
        """Concatenate int32 arrays, without a loop over their ids.

        Args:
            rows: One int32 array per row.

        Returns:
            The rows.
        """
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        values = np.concatenate(rows) if rows else np.empty(0, np.int32)
        return cls(values.astype(np.int32, copy=False), lengths)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each row begins in `values`: int64 array `(rows,)`."""
        return np.cumsum(self.lengths) - self.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def to_lists(self) -> list[list[int]]:
        """Return the rows as lists of `int`."""
        values = self.values.tolist()
        starts = self.starts.tolist()
        lengths = self.lengths.tolist()
        return [
            values[start : start + length]
            for start, length in zip(starts, lengths, strict=True)
        ]

    def take(self, indices: npt.ArrayLike) -> "TokenRows":
        """Return some of the rows, in any order, with repetitions.

        Args:
            indices: Integers `(picked,)`; negative indices count from the end.

        Returns:
            The rows at `indices`.

        Raises:
            IndexError: If an index is out of range.
        """
        picked = np.asarray(indices, np.int64).reshape(-1)
        lengths = self.lengths[picked]
        ends = np.cumsum(lengths)
        # The n-th id of the result is in row r, `n - (ends - lengths)[r]` ids after
        # the first id of that row.
        shift = self.starts[picked] - (ends - lengths)
        total = int(ends[-1]) if len(ends) else 0
        source = np.arange(total) + np.repeat(shift, lengths)
        return TokenRows(self.values[source], lengths)
