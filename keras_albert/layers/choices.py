"""Reshaping the choices of questions to rows for a backbone, and the scores back."""

from typing import Any

import keras
from keras import ops

from keras_albert.types import Tensor


@keras.saving.register_keras_serializable(package="keras_albert")
class ChoicesToRows(keras.layers.Layer):
    """Reshape the choices of all questions to the rows of one batch.

    A missing choice, whose padding mask is all zero, has its first position unmasked:
    attention over nothing is undefined on some backends.
    """

    def call(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Reshape each `(questions, choices, length)` to `(rows, length)`."""
        rows = {
            name: ops.reshape(ids, (-1, ops.shape(ids)[-1]))
            for name, ids in inputs.items()
        }
        mask = rows["padding_mask"]
        is_empty = ops.equal(ops.max(mask, axis=-1, keepdims=True), 0)
        is_first = ops.equal(ops.arange(ops.shape(mask)[-1], dtype="int32"), 0)
        shown = ops.logical_and(is_empty, ops.expand_dims(is_first, 0))
        rows["padding_mask"] = ops.maximum(mask, ops.cast(shown, mask.dtype))
        return rows

    def compute_output_spec(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return the output shapes."""
        return {
            name: keras.KerasTensor((None, ids.shape[-1]), ids.dtype)
            for name, ids in inputs.items()
        }


# The score of a missing choice: its probability is zero, and it is finite, so that no
# difference of two scores is NaN.
MISSING_CHOICE = -1e9


@keras.saving.register_keras_serializable(package="keras_albert")
class ChoiceScores(keras.layers.Layer):
    """Reshape the scores of rows to one row of choices for each question."""

    def call(self, scores: Tensor, padding_mask: Tensor) -> Tensor:
        """Reshape `(rows, 1)` to `(questions, choices)`.

        A missing choice has the score `MISSING_CHOICE`.
        """
        scores = ops.reshape(scores, ops.shape(padding_mask)[:2])
        is_present = ops.any(ops.cast(padding_mask, "bool"), axis=-1)
        return ops.where(is_present, scores, ops.cast(MISSING_CHOICE, scores.dtype))

    def compute_output_spec(self, scores: Any, padding_mask: Any) -> Any:
        """Return the output shape."""
        return keras.KerasTensor(padding_mask.shape[:2], scores.dtype)
