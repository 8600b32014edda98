"""Selecting positions of rows."""

import keras
from keras import ops

from keras_albert.types import Tensor


def gather_tokens(x: Tensor, positions: Tensor) -> Tensor:
    """Return the vectors at some positions of each row.

    Args:
        x: Tensor `(batch, length, width)`.
        positions: Integer tensor `(batch, slots)`, from 0 on.

    Returns:
        Tensor `(batch, slots, width)`.

    Example:
        >>> import numpy as np
        >>> x = keras.ops.convert_to_tensor(np.arange(6).reshape(1, 3, 2))
        >>> keras.ops.convert_to_numpy(gather_tokens(x, np.array([[2, 0]]))).tolist()
        [[[4, 5], [0, 1]]]
    """
    if keras.config.backend() != "torch":
        return ops.take_along_axis(x, ops.expand_dims(positions, -1), axis=1)
    import torch  # noqa: PLC0415  (it is the backend)

    # Keras' operation makes the shape a constant when PyTorch traces it.
    index = ops.expand_dims(ops.cast(positions, "int64"), -1)
    return torch.gather(x, 1, index.expand(-1, -1, x.shape[-1]))
