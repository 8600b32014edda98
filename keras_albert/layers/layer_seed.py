"""Dropout randomness that a compiled loop can carry."""

from typing import Any

import keras
import numpy as np
from keras import ops

from keras_albert.types import Tensor

# The golden ratio in 32 bits: an odd step, so 2**32 sites get distinct seeds.
_STEP = 0x9E3779B1


class StepSeed:
    """The randomness of one training step, for as many dropouts as it takes.

    A `keras.random.SeedGenerator` counts up in a variable, and the body of a
    compiled loop may not write to a variable of the model. So the encoder draws
    one base seed a step, and each dropout of each virtual layer offsets it by its
    own number, which may be the loop's counter. Dropout therefore differs from
    layer to layer, and is the same whether the depth is a loop, unrolled, or
    recomputed in the backward pass.

    Args:
        generator: `keras.random.SeedGenerator`. Where the base seed is drawn.
    """

    def __init__(self, generator: keras.random.SeedGenerator) -> None:
        self.base = generator.next()
        if keras.config.backend() == "torch":
            # Keras reads PyTorch's seeds on the host, a synchronisation for each
            # dropout; fetched here, it is one a step.
            self.base = ops.convert_to_numpy(self.base)

    def block(self, number: Any) -> "BlockSeed":
        """Give the randomness of one block.

        Args:
            number: int or integer scalar tensor. The block's number among all that
                run in a step.

        Returns:
            What `TransformerBlock` takes as its seed.
        """
        return BlockSeed(self.base, number)


class BlockSeed:
    """The randomness of one run of one block.

    Args:
        base: Integer tensor or array of shape `(2,)`.
        number: int or integer scalar tensor.
    """

    def __init__(self, base: Any, number: Any) -> None:
        self.base = base
        self.number = number

    def site(self, index: int, count: int) -> keras.random.SeedGenerator:
        """Give the seed of one dropout.

        Args:
            index: int. Which dropout of the block.
            count: int. How many a block has.

        Returns:
            What `keras.random.dropout` takes as its seed.
        """
        return _FixedSeed(self.base, self.number * count + index)


class _FixedSeed(keras.random.SeedGenerator):
    """A seed without a state, so asking twice gives the same one."""

    def __init__(self, base: Tensor, site: Any) -> None:
        # Without `super().__init__`, which makes a variable: that is the point.
        # PyTorch's dropout asks whether the seed was given; it was.
        self._initial_seed = 0
        self.base = base
        self.offset = site

    def next(self, ordered: bool = True) -> Any:
        if isinstance(self.base, np.ndarray):
            return int(self.base[0]) + int(self.offset) * _STEP, int(self.base[1])
        dtype = keras.backend.standardize_dtype(self.base.dtype)
        site = ops.cast(self.offset, dtype)
        offset = site * ops.convert_to_tensor(np.array(_STEP, dtype))
        return self.base + ops.stack([offset, ops.zeros_like(offset)])
