"""Many rows of token ids of unlike length, held in two flat arrays."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["TokenRows"]


class TokenRows(NamedTuple):
    """A ragged batch of token ids, flat, so that NumPy packs it without a loop.

    Row `i` is `values[starts[i] : starts[i] + lengths[i]]`. `len()` is the
    number of rows.

    Args:
        values: int32 array `(total,)`. The ids of all rows, one after the other.
        lengths: int64 array `(rows,)`. How many of them belong to each row.

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
        """Lay lists of ids end to end.

        Args:
            rows: Lists (or other sequences) of int.

        Returns:
            The same ids, flat.
        """
        rows = list(rows)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        total = int(lengths.sum())
        values = np.fromiter(chain.from_iterable(rows), np.int32, total)
        return cls(values, lengths)

    @classmethod
    def from_arrays(cls, rows: Sequence[npt.NDArray[np.int32]]) -> "TokenRows":
        """Lay int32 arrays end to end, without visiting their ids in Python.

        Args:
            rows: One int32 array a row.

        Returns:
            The same ids, flat.
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
        """Hand the rows back as lists of `int`."""
        values = self.values.tolist()
        starts = self.starts.tolist()
        lengths = self.lengths.tolist()
        return [
            values[start : start + length]
            for start, length in zip(starts, lengths, strict=True)
        ]

    def take(self, indices: npt.ArrayLike) -> "TokenRows":
        """Pick rows, in the order asked for, each as often as asked for.

        Args:
            indices: Integers `(picked,)`; negative ones count from the end.

        Returns:
            The picked rows.

        Raises:
            IndexError: There is no such row.
        """
        picked = np.asarray(indices, np.int64).reshape(-1)
        lengths = self.lengths[picked]
        ends = np.cumsum(lengths)
        # The n-th id of the result stands in row r, `n - (ends - lengths)[r]`
        # ids after that row's first one.
        shift = self.starts[picked] - (ends - lengths)
        total = int(ends[-1]) if len(ends) else 0
        source = np.arange(total) + np.repeat(shift, lengths)
        return TokenRows(self.values[source], lengths)
