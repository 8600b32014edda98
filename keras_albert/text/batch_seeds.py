"""Random states for batches, that do not depend on the order of the batches."""

import numpy as np

from keras_albert.types import Int64Array


class BatchSeeds:
    """Gives each batch a generator: another one each time, the same for one seed.

    What is drawn for a batch follows from the seed, from the batch's first row and
    from how often that row was drawn for.

    Args:
        entropy: Sequence of int, none below zero. The seed.
        num_rows: int. How many rows there are.
        fixed: bool. Whether a batch gets the same generator each time, so that two
            evaluations can be compared. Defaults to `False`.

    Example:
        >>> seeds = BatchSeeds([7], num_rows=4)
        >>> rows = np.array([2, 3])
        >>> first, second = (int(seeds.generator(rows).integers(9**9)) for _ in "ab")
        >>> first == second
        False
        >>> first == int(BatchSeeds([7], num_rows=4).generator(rows).integers(9**9))
        True
    """

    def __init__(self, entropy: list[int], num_rows: int, fixed: bool = False) -> None:
        self._entropy = entropy
        self._fixed = fixed
        self._visits = np.zeros(num_rows, np.int64)

    def generator(self, rows: Int64Array) -> np.random.Generator:
        """Make the generator of a batch, and count the visit.

        Args:
            rows: int64 array `(batch,)`. The rows of the batch.

        Returns:
            The generator.
        """
        # No two batches of an epoch begin with the same row.
        place = [int(rows[0]), int(self._visits[rows[0]])] if len(rows) else []
        if not self._fixed:
            self._visits[rows] += 1
        return np.random.default_rng([*self._entropy, *place])
