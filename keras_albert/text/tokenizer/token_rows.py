"""Rows of token ids of different lengths, stored in two flat arrays."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_albert.types import Int64Array, Truncation


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
        """Concatenate lists, or other sequences, of int.

        Example:
            >>> from keras_albert.text import TokenRows
            >>> TokenRows.from_lists([[5, 6], [7]]).to_lists()
            [[5, 6], [7]]
        """
        rows = list(rows)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        total = int(lengths.sum())
        values = np.fromiter(chain.from_iterable(rows), np.int32, total)
        return cls(values, lengths)

    @classmethod
    def from_arrays(cls, rows: Sequence[npt.NDArray[np.int32]]) -> "TokenRows":
        """Concatenate int32 arrays, without a loop over their ids.

        Example:
            >>> import numpy as np
            >>> from keras_albert.text import TokenRows
            >>> rows = [np.array([5, 6], "int32"), np.array([7], "int32")]
            >>> TokenRows.from_arrays(rows).to_lists()
            [[5, 6], [7]]
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
        """Return the rows as lists of `int`.

        Example:
            >>> from keras_albert.text import TokenRows
            >>> TokenRows.from_lists([[5, 6], [7]]).to_lists()
            [[5, 6], [7]]
        """
        values, lengths = self.values.tolist(), self.lengths.tolist()
        ends = np.cumsum(self.lengths).tolist()
        return [values[end - n : end] for end, n in zip(ends, lengths, strict=True)]

    def take(self, indices: npt.ArrayLike) -> "TokenRows":
        """Return some of the rows, in any order, with repetitions.

        Args:
            indices: Integers `(picked,)`; negative indices count from the end.

        Returns:
            The rows at `indices`.

        Raises:
            IndexError: If an index is out of range.

        Example:
            >>> from keras_albert.text import TokenRows
            >>> TokenRows.from_lists([[5, 6], [7]]).take([1]).to_lists()
            [[7]]
        """
        picked = np.asarray(indices, np.int64).reshape(-1)
        lengths = self.lengths[picked]
        return TokenRows(
            self.values[ragged_range(self.starts[picked], lengths)], lengths
        )


def ragged_range(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """Return `length` consecutive numbers from `start` on for each row, joined."""
    # Number n of the result is `n + shift` of its row.
    shift = starts - (np.cumsum(lengths) - lengths)
    return np.arange(lengths.sum()) + np.repeat(shift, lengths)


def truncated_lengths(
    lengths: tuple[Int64Array, ...], budget: int, truncate: Truncation
) -> tuple[Int64Array, ...]:
    """Return how many tokens of each text are kept, as in KerasHub, in closed form."""
    # "round_robin" assigns the budget, without special tokens, one by one, the first
    # text first; "waterfall" fills it with the first text, then the second.
    if len(lengths) == 1:
        return (np.minimum(lengths[0], budget),)
    first, second = lengths
    if truncate == "waterfall":
        first = np.minimum(first, budget)
    else:
        share = np.maximum((budget + 1) // 2, budget - second)
        first = np.minimum(first, share)
    return first, np.minimum(second, budget - first)


def to_id_rows(inputs: Any, vocabulary_size: int) -> tuple[list[list[int]], bool]:
    """Read ids of one text or many; return whether there was a batch axis."""
    if isinstance(inputs, TokenRows):
        rows, batched = inputs.to_lists(), True
    else:
        values = _to_python(inputs)
        batched = isinstance(values, list) and any(isinstance(v, list) for v in values)
        rows = values if batched else [values if isinstance(values, list) else [values]]
    for index, row in enumerate(rows):
        # An id among lists is not a row; the message shows it.
        for token_id in row if isinstance(row, list) else [[row]]:
            if not isinstance(token_id, int) or not 0 <= token_id < vocabulary_size:
                raise ValueError(
                    f"row {index} of the ids contains {token_id!r}; ids of this "
                    f"vocabulary are whole numbers from 0 to {vocabulary_size - 1}, in "
                    "one list or a list of lists. Take a model's ids with argmax, and "
                    "leave out labels such as -100."
                )
    return rows, batched


def _to_python(inputs: Any) -> Any:
    """Convert arrays and tensors, also inside lists, to lists and `int`."""
    if isinstance(inputs, list | tuple):
        return [_to_python(item) for item in inputs]
    if hasattr(inputs, "to_list"):  # a ragged TensorFlow tensor
        return inputs.to_list()
    if hasattr(inputs, "tolist"):  # NumPy, JAX, PyTorch
        return inputs.tolist()
    if hasattr(inputs, "numpy"):  # TensorFlow, a Keras variable
        return inputs.numpy().tolist()
    return inputs
