"""Selecting positions of rows."""

import keras
from keras import ops

from keras_albert.types import Tensor


def gather_tokens(x: Tensor, positions: Tensor) -> Tensor:
    """Return the vectors at some positions of each row.

    `x` is `(batch, length, width)`, `positions` is `(batch, slots)`.
    """
    if keras.config.backend() != "torch":
        return ops.take_along_axis(x, ops.expand_dims(positions, -1), axis=1)
    import torch  # noqa: PLC0415  (it is the backend)

    # Keras' operation makes the shape a constant when PyTorch traces it.
    index = ops.expand_dims(ops.cast(positions, "int64"), -1)
    return torch.gather(x, 1, index.expand(-1, -1, x.shape[-1]))
