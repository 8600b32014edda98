"""Initial weights, and seeds for dropout inside a compiled loop."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

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


class StepSeed(keras.random.SeedGenerator):
    """The seed of a training step, a block or a dropout: each draw returns it."""

    # A compiled loop cannot write to a seed generator's variable. So the encoder draws
    # one seed per step, and each dropout of each layer offsets it by its number: masks
    # are the same in a loop, unrolled, or recomputed in the backward pass.

    def __init__(self, base: Any, number: Any = 0) -> None:
        # `super().__init__` would create a variable, which this class avoids.
        mark_as_seeded(self)
        self.base = base
        self.number = number

    @classmethod
    def draw(cls, generator: keras.random.SeedGenerator) -> "StepSeed":
        """Draw the seed of a step."""
        base = generator.next()
        # Keras reads PyTorch's seeds on the host, with a synchronisation for each
        # dropout; fetching the seed here needs one per step.
        is_torch = keras.config.backend() == "torch"
        return cls(ops.convert_to_numpy(base) if is_torch else base)

    def at(self, index: Any, count: int = 1) -> "StepSeed":
        """Return the seed of one of `count` parts, each with its own dropouts."""
        return StepSeed(self.base, self.number * count + index)

    def next(self, ordered: bool = True) -> Any:
        """Return the seed in the form of the backend."""
        if isinstance(self.base, np.ndarray):
            return int(self.base[0]) + int(self.number) * _STEP, int(self.base[1])
        dtype = keras.backend.standardize_dtype(self.base.dtype)
        site = ops.cast(self.number, dtype)
        offset = site * ops.convert_to_tensor(np.array(_STEP, dtype))
        return self.base + ops.stack([offset, ops.zeros_like(offset)])
