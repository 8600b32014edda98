"""Random generators for batches, independent of the order of the batches."""

from typing import Any, Protocol, Self, TypeVar

import keras
import numpy as np

from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.types import Int64Array

_Drawn = TypeVar("_Drawn")


class Seeds(Protocol):
    """Splits a batch into parts, each with its random generator."""

    def parts(self, rows: Int64Array) -> list[tuple[Int64Array, np.random.Generator]]:
        """Split the rows of a batch into parts, each with a random generator."""

    def of_epoch(self, epoch: int) -> "Seeds":
        """Return seeds for one epoch, which are the same each time for a batch."""


class BatchSeeds:
    """One generator per batch, which differs each time and is set by the seed.

    The generator depends on the seed, on the batch's first row, and on the number of
    times that this row was visited before.
    """

    def __init__(
        self, entropy: list[int], num_rows: int, epoch: int | None = None
    ) -> None:
        self._entropy = entropy
        self._visits = np.full(num_rows, epoch or 0, np.int64)
        self._is_counting = epoch is None

    def parts(self, rows: Int64Array) -> list[tuple[Int64Array, np.random.Generator]]:
        """Return the batch as one part, and count the visit; see `Seeds`."""
        # No two batches of an epoch begin with the same row.
        place = [int(rows[0]), int(self._visits[rows[0]])] if len(rows) else []
        if self._is_counting:
            self._visits[rows] += 1
        return [(rows, np.random.default_rng([*self._entropy, *place]))]

    def of_epoch(self, epoch: int) -> Self:
        """Return the seeds of one epoch; see `Seeds`."""
        return type(self)(self._entropy, len(self._visits), epoch)


class TextSeeds:
    """One generator per row, which depends on the seed and the row's text alone.

    An evaluation is thus the same each time, with any batches in any order.
    """

    def __init__(self, seed: int, columns: tuple[TokenRows, ...]) -> None:
        # Reduces an int of any size to one 32-bit word.
        self._seed = np.random.SeedSequence(seed).generate_state(1)
        self._columns = columns
        self._starts = tuple(column.starts for column in columns)

    def parts(self, rows: Int64Array) -> list[tuple[Int64Array, np.random.Generator]]:
        """Split a batch into its rows; see `Seeds`."""
        if not len(rows):
            return [(rows, np.random.default_rng(self._seed))]
        return [(rows[i : i + 1], self._generator(row)) for i, row in enumerate(rows)]

    def of_epoch(self, epoch: int) -> Self:
        """Return the same seeds, since epochs do not differ."""
        return self

    def _generator(self, row: int) -> np.random.Generator:
        # Each text is preceded by its length, so that different pairs differ.
        entropy: list[Any] = [self._seed]
        for column, starts in zip(self._columns, self._starts, strict=True):
            start, length = starts[row], column.lengths[row]
            entropy += [[length], column.values[start : start + length]]
        return np.random.default_rng(np.concatenate(entropy).astype(np.uint32))


def join_parts(parts: list[_Drawn]) -> _Drawn:
    """Concatenate trees of arrays that differ in their first axes only."""
    if len(parts) == 1:
        return parts[0]
    joined: _Drawn = keras.tree.map_structure(
        lambda *arrays: np.concatenate(arrays), *parts
    )
    return joined
