"""The loss of token predictions."""

from typing import Any

import keras
from keras import ops

from keras_albert.types import Tensor


@keras.saving.register_keras_serializable(package="keras_albert")
class TokenCrossEntropy(keras.losses.Loss):
    """Cross-entropy of the scores of tokens.

    Equal to `keras.losses.SparseCategoricalCrossentropy(from_logits=True)`, which takes
    twice as long on PyTorch, because it moves the vocabulary to axis 1.
    """

    def __init__(self, name: str = "token_cross_entropy", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        """Return the loss of each token `(batch, slots)`."""
        rows = ops.reshape(y_pred, (-1, y_pred.shape[-1]))
        labels = ops.reshape(ops.cast(y_true, "int32"), (-1,))
        losses = ops.sparse_categorical_crossentropy(labels, rows, from_logits=True)
        return ops.reshape(losses, ops.shape(y_pred)[:-1])
