"""Pooling the vectors of a text's tokens into one vector."""

from typing import Any

import keras
from keras import ops

from keras_albert.types import Tensor
from keras_albert.utils.arguments import refuse_unknown

POOLING_MODES = ("mean", "cls", "max")


@keras.saving.register_keras_serializable(package="keras_albert")
class MaskedPooling(keras.layers.Layer):
    """Pool over a sequence, ignoring padding.

    Args:
        mode: string. `"mean"` or `"max"` of the tokens, including `[CLS]` and
            `[SEP]`; or `"cls"`, the vector of the first token.
        **kwargs: `dtype` and `name`, as on any Keras layer.

    Raises:
        ValueError: If the mode is unknown.

    Example:
        >>> import numpy as np
        >>> sequence = np.array([[[1.0], [3.0], [9.0]]])
        >>> pooled = MaskedPooling("mean")(sequence, np.array([[1, 1, 0]]))
        >>> keras.ops.convert_to_numpy(pooled).tolist()
        [[2.0]]
    """

    def __init__(self, mode: str, **kwargs: Any) -> None:
        if mode not in POOLING_MODES:
            msg = f"`mode` must be one of {POOLING_MODES}. Received: {mode!r}"
            raise ValueError(msg)
        refuse_unknown(type(self), kwargs)
        super().__init__(**kwargs)
        self.mode = mode

    def call(self, sequence: Tensor, padding_mask: Tensor) -> Tensor:
        """Pool the sequence.

        Args:
            sequence: Float tensor `(batch, length, width)`.
            padding_mask: Integer tensor `(batch, length)`, zero at padding.

        Returns:
            Float tensor `(batch, width)`.
        """
        if self.mode == "cls":
            return sequence[:, 0, :]
        mask = ops.expand_dims(ops.cast(padding_mask, "bool"), -1)
        if self.mode == "max":
            return ops.max(ops.where(mask, sequence, -1e9), axis=1)
        count = ops.sum(ops.cast(mask, sequence.dtype), axis=1)
        total = ops.sum(ops.where(mask, sequence, 0.0), axis=1)
        return ops.divide(total, ops.maximum(count, 1.0))

    def compute_output_shape(self, sequence_shape: Any, padding_mask_shape: Any) -> Any:
        """Return the output shape."""
        return (sequence_shape[0], sequence_shape[-1])

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "mode": self.mode}
