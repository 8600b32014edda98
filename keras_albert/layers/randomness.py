"""Initial weights, and seeds for dropout inside a compiled loop."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_albert.types import Tensor
from keras_albert.utils.keras_internals import mark_as_seeded


def albert_initializer(seed: int | None = None) -> keras.initializers.Initializer:
    """Return a new truncated normal of deviation 0.02; a shared one repeats itself."""
    return keras.initializers.TruncatedNormal(stddev=0.02, seed=seed)


def derive_seeds(seed: int | None, count: int) -> Iterator[int | None]:
    """Derive independent seeds from one."""
    if seed is None:
        return iter([None] * count)
    # 31 bits: the largest range that every backend accepts for a seed.
    states = np.random.SeedSequence(seed).generate_state(count) >> 1
    return iter(states.tolist())


# The golden ratio in 32 bits: an odd step, so that 2**32 sites get distinct seeds.
_STEP = 0x9E3779B1


class StepSeed:
    """The seeds of one training step, for any number of dropouts."""

    # A compiled loop cannot write to a seed generator's variable. So the encoder draws
    # one seed per step, and each dropout of each layer offsets it by its number: masks
    # are the same in a loop, unrolled, or recomputed in the backward pass.

    def __init__(self, generator: keras.random.SeedGenerator) -> None:
        self.base = generator.next()
        if keras.config.backend() == "torch":
            # Keras reads PyTorch's seeds on the host, with a synchronisation for each
            # dropout; fetching the seed here needs one per step.
            self.base = ops.convert_to_numpy(self.base)

    def block(self, number: Any) -> "BlockSeed":
        """Return the seeds of one block, counted over all runs of blocks in a step."""
        return BlockSeed(self.base, number)


class BlockSeed:
    """The seeds of one run of one block."""

    def __init__(self, base: Any, number: Any) -> None:
        self.base = base
        self.number = number

    def site(self, index: int, count: int) -> keras.random.SeedGenerator:
        """Return the seed of one dropout."""
        return _FixedSeed(self.base, self.number * count + index)


class _FixedSeed(keras.random.SeedGenerator):
    """A stateless seed: every draw returns the same one."""

    def __init__(self, base: Tensor, site: Any) -> None:
        # `super().__init__` would create a variable, which this class avoids.
        mark_as_seeded(self)
        self.base = base
        self.offset = site

    def next(self, ordered: bool = True) -> Any:
        if isinstance(self.base, np.ndarray):
            return int(self.base[0]) + int(self.offset) * _STEP, int(self.base[1])
        dtype = keras.backend.standardize_dtype(self.base.dtype)
        site = ops.cast(self.offset, dtype)
        offset = site * ops.convert_to_tensor(np.array(_STEP, dtype))
        return self.base + ops.stack([offset, ops.zeros_like(offset)])
