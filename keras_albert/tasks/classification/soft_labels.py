"""Targets that are a probability of each class, for losses that take them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.tasks.base.compile_arguments import loss_name
from keras_albert.tasks.classification.multi_labels import indicator_names, indicators
from keras_albert.tasks.inputs.labels import encode_classes
from keras_albert.types import FloatArray

# As `loss_name` returns them.
_LOSSES = {
    "binarycrossentropy",
    "binaryfocalcrossentropy",
    "categoricalcrossentropy",
    "categoricalfocalcrossentropy",
    "categoricalgeneralizedcrossentropy",
    "categoricalhinge",
    "kldivergence",
}
# How far the sum of a row may be from 1, with probabilities in float16.
_TOLERANCE = 1e-2


def takes_probabilities(loss: Any) -> bool:
    """Return whether a loss takes a probability of each class."""
    return loss_name(loss) in _LOSSES


def encode_probabilities(
    y: Any, num_classes: int, labels: Sequence[str] | None
) -> FloatArray:
    """Return probabilities, or class names or numbers as ones and zeros.

    `y` is `(examples, num_classes)`, a table with a column for each class, or what
    `encode_classes` takes.
    """
    if hasattr(y, "detach"):
        y = y.detach().cpu()
    if indicator_names(y):
        y = indicators(y, labels)
    rows: npt.NDArray[Any] = np.asarray(y)
    if rows.ndim != 2 or rows.shape[1] != num_classes or rows.dtype.kind not in "biuf":
        classes = encode_classes(y, num_classes, labels)
        return np.eye(num_classes, dtype=np.float32)[classes]
    rows = rows.astype(np.float32)
    # NaN is not within the tolerance.
    is_one = np.abs(rows.sum(axis=1) - 1) <= _TOLERANCE
    wrong = np.flatnonzero(~(is_one & (rows >= 0).all(axis=1)))
    if len(wrong):
        row, count = int(wrong[0]), len(wrong)
        msg = (
            f"Row {row} has the probabilities {rows[row].tolist()}, which must be at "
            "least 0 and have the sum 1. Pass the softmax of a model's logits, as "
            f"`probabilities(outputs)` returns ({count} such row{'s' * (count > 1)})."
        )
        raise ValueError(msg)
    return rows
