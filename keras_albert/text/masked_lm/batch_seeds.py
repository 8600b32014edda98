"""Random states for the rows of a batch, that do not depend on the order of batches."""

from typing import Any, Protocol, Self, TypeVar

import keras
import numpy as np

from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.types import Int64Array

_Drawn = TypeVar("_Drawn")


class Seeds(Protocol):
    """Cuts a batch into parts, each of which is drawn with a generator of its own."""

    def parts(self, rows: Int64Array) -> list[tuple[Int64Array, np.random.Generator]]:
        """Cut a batch.

        Args:
            rows: int64 array `(batch,)`. The rows of the batch.

        Returns:
            Rows and their generator, part after part.
        """

    def of_epoch(self, epoch: int) -> "Seeds":
        """Fix what is drawn to one epoch, in which each row is visited once.

        Args:
            epoch: int. Counts from 0.

        Returns:
            Seeds that draw the same for a batch each time.
        """


class BatchSeeds:
    """One generator a batch: another one each time, the same for one seed.

    What is drawn for a batch follows from the seed, from the batch's first row and
    from how often that row was drawn for.

    Args:
        entropy: Sequence of int, none below zero. The seed.
        num_rows: int. How many rows there are.
        epoch: int or `None`. The only epoch to draw for. Defaults to `None`: visits
            are counted.

    Example:
        >>> seeds = BatchSeeds([7], num_rows=4)
        >>> rows = np.array([2, 3])
        >>> def draw(seeds):
        ...     ((_, generator),) = seeds.parts(rows)
        ...     return int(generator.integers(9**9))
        >>> first = draw(seeds)
        >>> first == draw(seeds)
        False
        >>> first == draw(BatchSeeds([7], num_rows=4))
        True
    """

    def __init__(
        self, entropy: list[int], num_rows: int, epoch: int | None = None
    ) -> None:
        self._entropy = entropy
        self._visits = np.full(num_rows, epoch or 0, np.int64)
        self._is_counting = epoch is None

    def parts(self, rows: Int64Array) -> list[tuple[Int64Array, np.random.Generator]]:
        """Give the whole batch, and count the visit; see `Seeds`."""
        # No two batches of an epoch begin with the same row.
        place = [int(rows[0]), int(self._visits[rows[0]])] if len(rows) else []
        if self._is_counting:
            self._visits[rows] += 1
        return [(rows, np.random.default_rng([*self._entropy, *place]))]

    def of_epoch(self, epoch: int) -> Self:
        """Fix what is drawn to one epoch; see `Seeds`."""
        return type(self)(self._entropy, len(self._visits), epoch)


class TextSeeds:
    """One generator a row, that follows from the seed and from the row's text alone.

    So an evaluation is the same each time, whatever the batches and their order.

    Args:
        seed: int, not below zero.
        columns: One or two `TokenRows`. The texts.
    """

    def __init__(self, seed: int, columns: tuple[TokenRows, ...]) -> None:
        # Of any size, as one word.
        self._seed = np.random.SeedSequence(seed).generate_state(1)
        self._columns = columns
        self._starts = tuple(column.starts for column in columns)

    def parts(self, rows: Int64Array) -> list[tuple[Int64Array, np.random.Generator]]:
        """Cut a batch into its rows; see `Seeds`."""
        if not len(rows):
            return [(rows, np.random.default_rng(self._seed))]
        return [(rows[i : i + 1], self._generator(row)) for i, row in enumerate(rows)]

    def of_epoch(self, epoch: int) -> Self:
        """Give these seeds, as epochs do not differ."""
        return self

    def _generator(self, row: int) -> np.random.Generator:
        # With its length before it, a text cannot pass for another's part.
        entropy: list[Any] = [self._seed]
        for column, starts in zip(self._columns, self._starts, strict=True):
            start, length = starts[row], column.lengths[row]
            entropy += [[length], column.values[start : start + length]]
        return np.random.default_rng(np.concatenate(entropy).astype(np.uint32))


def join_parts(parts: list[_Drawn]) -> _Drawn:
    """Put together what was drawn part by part.

    Args:
        parts: Trees of arrays, alike but for their first axes.

    Returns:
        One such tree.
    """
    if len(parts) == 1:
        return parts[0]
    joined: _Drawn = keras.tree.map_structure(
        lambda *arrays: np.concatenate(arrays), *parts
    )
    return joined
