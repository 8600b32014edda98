"""Pooling the vectors of a text's tokens into one vector."""

from typing import Any

import keras
from keras import ops

from keras_albert.types import Tensor
from keras_albert.utils.arguments import refuse_unknown

POOLING_MODES = ("mean", "cls", "max")


def masked_mean(sequence: Tensor, padding_mask: Tensor) -> Tensor:
    """Return the mean of each sequence, without padding."""
    mask = ops.expand_dims(ops.cast(padding_mask, "bool"), -1)
    return _weighted_mean(sequence, mask, ops.cast(mask, sequence.dtype))


def _weighted_mean(sequence: Tensor, mask: Tensor, weights: Tensor) -> Tensor:
    total = ops.sum(ops.where(mask, ops.multiply(sequence, weights), 0.0), axis=1)
    count = ops.maximum(ops.sum(weights, axis=1), keras.config.epsilon())
    return ops.divide(total, count)


@keras.saving.register_keras_serializable(package="keras_albert")
class MaskedPooling(keras.layers.Layer):
    """Pool over a sequence, ignoring padding.

    `[CLS]` and `[SEP]` count. With `inverse_frequency` a, a token of probability p has
    the weight a / (a + p).
    """

    def __init__(
        self,
        mode: str,
        inverse_frequency: float | None = None,
        vocabulary_size: int | None = None,
        **kwargs: Any,
    ) -> None:
        if mode not in POOLING_MODES:
            msg = f"`mode` must be one of {POOLING_MODES}. Received: {mode!r}"
            raise ValueError(msg)
        if inverse_frequency is not None and mode != "mean":
            msg = (
                "`inverse_frequency` requires the pooling mode 'mean'. Received: "
                f"{mode!r}"
            )
            raise ValueError(msg)
        if inverse_frequency is not None and not inverse_frequency > 0:
            msg = (
                "`inverse_frequency` must be above 0, or `None`. Received: "
                f"inverse_frequency={inverse_frequency}"
            )
            raise ValueError(msg)
        refuse_unknown(type(self), kwargs)
        super().__init__(**kwargs)
        self.mode = mode
        self.inverse_frequency = inverse_frequency
        self.vocabulary_size = vocabulary_size

    def build(self, sequence_shape: Any) -> None:
        """Create the probabilities of the tokens."""
        if self.inverse_frequency is not None:
            self.token_probabilities = self.add_weight(
                shape=(self.vocabulary_size,),
                initializer="zeros",
                trainable=False,
                name="token_probabilities",
            )

    def call(
        self, sequence: Tensor, padding_mask: Tensor, token_ids: Tensor | None = None
    ) -> Tensor:
        """Pool the sequence."""
        if self.mode == "cls":
            return sequence[:, 0, :]
        mask = ops.expand_dims(ops.cast(padding_mask, "bool"), -1)
        if self.mode == "max":
            return ops.max(ops.where(mask, sequence, -1e9), axis=1)
        weights = ops.cast(mask, sequence.dtype)
        if self.inverse_frequency is not None:
            found = ops.take(self.token_probabilities, token_ids, axis=0)
            found = ops.divide(
                self.inverse_frequency, ops.add(found, self.inverse_frequency)
            )
            weights = ops.multiply(weights, ops.expand_dims(found, -1))
        return _weighted_mean(sequence, mask, weights)

    def compute_output_shape(
        self,
        sequence_shape: Any,
        padding_mask_shape: Any,
        token_ids_shape: Any = None,
    ) -> Any:
        """Return the output shape."""
        return (sequence_shape[0], sequence_shape[-1])

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        config.update(
            mode=self.mode,
            inverse_frequency=self.inverse_frequency,
            vocabulary_size=self.vocabulary_size,
        )
        return config
