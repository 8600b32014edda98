"""Initial weights and seeds."""

from collections.abc import Iterator

import keras
import numpy as np


def albert_initializer(seed: int | None = None) -> keras.initializers.Initializer:
    """Return the reference's initializer, a truncated normal of deviation 0.02.

    Args:
        seed: int or `None`. Defaults to `None`, a different draw each time.

    Returns:
        A new initializer: sharing one would initialize both weights alike.
    """
    return keras.initializers.TruncatedNormal(stddev=0.02, seed=seed)


def derive_seeds(seed: int | None, count: int) -> Iterator[int | None]:
    """Derive independent seeds from one.

    Args:
        seed: int or `None`. With `None`, each derived seed is `None` as well.
        count: int. Number of seeds.

    Returns:
        An iterator over `count` seeds.
    """
    if seed is None:
        return iter([None] * count)
    # 31 bits: the largest range that every backend accepts for a seed.
    states = np.random.SeedSequence(seed).generate_state(count) >> 1
    return iter(states.tolist())
