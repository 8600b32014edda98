"""Targets of a classifier: classes, probabilities, sets of labels, scores."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.data.labels import class_names, encode_classes, encode_scores
from keras_albert.data.tables import column_names
from keras_albert.tasks.losses_and_metrics import loss_name
from keras_albert.text.reading import plain_column
from keras_albert.types import FloatArray

if TYPE_CHECKING:
    from keras_albert.tasks.classification.model import AlbertClassifier


def encode_label_sets(
    y: Any, num_classes: int, labels: Sequence[str] | None
) -> FloatArray:
    """Encode the labels of examples as zeros and ones `(examples, num_classes)`."""
    if hasattr(y, "detach"):
        y = y.detach().cpu()
    rows = list(indicators(y, labels) if indicator_names(y) else plain_column(y))
    encoded = np.zeros((len(rows), num_classes), np.float32)
    numbers = {name: number for number, name in enumerate(labels or ())}
    for row, value in enumerate(rows):
        if _holds_names(value):
            for name in value:
                if name not in numbers:
                    known = ", ".join(map(repr, numbers)) or "none: pass `labels=[...]`"
                    raise ValueError(
                        f"Row {row} has the label {name!r}, which the model does not "
                        f"have. Its labels are: {known}. Correct or drop it."
                    )
                encoded[row, numbers[name]] = 1
            continue
        try:
            flags = np.asarray(value, np.float32)
        except (TypeError, ValueError):
            flags = np.empty(0, np.float32)
        if flags.shape != (num_classes,) or not np.isin(flags, (0, 1)).all():
            raise ValueError(
                f"Row {row} has the labels {value!r}. Where a text may have several "
                "(`activation='sigmoid'`), pass the list of their names, or "
                f"{num_classes} zeros and ones."
            )
        encoded[row] = flags
    return encoded


def indicator_names(y: Any) -> tuple[str, ...]:
    """Return the names of a table with a column for each class, `()` for others."""
    names = column_names(y) or []
    is_named = len(names) > 1 and all(isinstance(name, str) for name in names)
    return tuple(names) if is_named else ()


def indicators(y: Any, labels: Sequence[str] | None) -> npt.NDArray[Any]:
    """Return the columns of a table, `indicator_names`, in the order of the labels."""
    names = indicator_names(y)
    if set(labels or names) != set(names):
        raise ValueError(
            f"The targets have the columns {', '.join(map(repr, names))}, and the "
            f"labels of the model are {', '.join(map(repr, labels or ()))}. Pass one "
            "column for each label."
        )
    columns = [np.asarray(plain_column(y[name])) for name in labels or names]
    return np.stack(columns, axis=1)


def set_names(y: Any) -> tuple[str, ...]:
    """Return the distinct names in sets of labels, sorted, or the names of columns."""
    if columns := indicator_names(y):
        return columns
    names = {name for row in y if _holds_names(row) for name in row}
    return tuple(sorted(names))


def _holds_names(row: Any) -> bool:
    is_set = isinstance(row, list | tuple | set | frozenset)
    return is_set and all(isinstance(name, str) for name in row)


# Losses that take a probability of each class, as `loss_name` returns them.
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


def encode_probabilities(
    y: Any, num_classes: int, labels: Sequence[str] | None
) -> FloatArray:
    """Return probabilities `(examples, num_classes)`, or classes as ones and zeros."""
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
        raise ValueError(
            f"Row {row} has the probabilities {rows[row].tolist()}, which must be at "
            "least 0 and sum to 1. Pass the softmax of a model's logits, as "
            f"`probabilities(outputs)` returns ({count} such row{'s' * (count > 1)})."
        )
    return rows


class TargetKind(NamedTuple):
    """How targets are read, and how predictions are compared to them."""

    loss: Callable[[bool], keras.losses.Loss]
    metric: Callable[[], keras.metrics.Metric]
    encode: Callable[[Any, int, Any], Any]
    names: Callable[[Any], tuple[str, ...]]
    is_class: bool = False


_CLASS = TargetKind(
    keras.losses.SparseCategoricalCrossentropy,
    lambda: keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
    encode_classes,
    class_names,
    is_class=True,
)
_PROBABILITIES = TargetKind(
    keras.losses.CategoricalCrossentropy,
    lambda: keras.metrics.CategoricalAccuracy(name="accuracy"),
    encode_probabilities,
    lambda y: indicator_names(y) or class_names(y),
)
_LABEL_SETS = TargetKind(
    keras.losses.BinaryCrossentropy,
    lambda: keras.metrics.BinaryAccuracy(name="accuracy"),
    encode_label_sets,
    set_names,
)
_SCORE = TargetKind(
    lambda is_logits: keras.losses.MeanSquaredError(),
    lambda: keras.metrics.RootMeanSquaredError(name="rmse"),
    lambda y, num_classes, labels: encode_scores(y),
    lambda y: (),
)


def target_kind(classifier: "AlbertClassifier") -> TargetKind:
    """Return what an `AlbertClassifier` learns."""
    if classifier.is_regression:
        return _SCORE
    if classifier.is_multi_label:
        return _LABEL_SETS
    return _PROBABILITIES if loss_name(classifier.loss) in _LOSSES else _CLASS
