"""Reshaping the scores of rows to the choices of questions."""

from typing import Any

import keras
from keras import ops

from keras_albert.types import Tensor

# The score of a missing choice: its probability is zero, and it is finite, so that no
# difference of two scores is NaN.
MISSING_CHOICE = -1e9


@keras.saving.register_keras_serializable(package="keras_albert")
class ChoiceScores(keras.layers.Layer):
    """Reshape the scores of rows to one row of choices for each question.

    Args:
        **kwargs: `name`, as on any Keras layer.

    Example:
        >>> import numpy as np
        >>> mask = np.array([[[1, 1], [1, 0]], [[1, 1], [0, 0]]])
        >>> scores = np.array([[1.0], [2.0], [3.0], [4.0]])
        >>> keras.ops.convert_to_numpy(ChoiceScores()(scores, mask)).tolist()
        [[1.0, 2.0], [3.0, -1000000000.0]]
    """

    def call(self, scores: Tensor, padding_mask: Tensor) -> Tensor:
        """Reshape `(rows, 1)` to `(questions, choices)`.

        Args:
            scores: Float tensor `(rows, 1)`.
            padding_mask: Integer tensor `(questions, choices, length)`.

        Returns:
            Float tensor `(questions, choices)`, `MISSING_CHOICE` for a choice that
            is missing.
        """
        scores = ops.reshape(scores, ops.shape(padding_mask)[:2])
        is_present = ops.any(ops.cast(padding_mask, "bool"), axis=-1)
        return ops.where(is_present, scores, ops.cast(MISSING_CHOICE, scores.dtype))

    def compute_output_spec(self, scores: Any, padding_mask: Any) -> Any:
        """Return the output shape."""
        return keras.KerasTensor(padding_mask.shape[:2], scores.dtype)
