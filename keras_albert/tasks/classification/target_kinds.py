"""What a classifier learns: a class, probabilities of classes, labels or a score."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras

from keras_albert.tasks.classification.multi_labels import (
    encode_label_sets,
    indicator_names,
    set_names,
)
from keras_albert.tasks.classification.soft_labels import (
    encode_probabilities,
    takes_probabilities,
)
from keras_albert.tasks.inputs.labels import class_names, encode_classes, encode_scores


class TargetKind(NamedTuple):
    """How targets are read, and how predictions are compared to them.

    `loss` takes whether outputs are logits; a target that `is_class` is the number of
    one class.
    """

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


def target_kind(classifier: Any) -> TargetKind:
    """Return what an `AlbertClassifier` learns."""
    if classifier.is_regression:
        return _SCORE
    if classifier.is_multi_label:
        return _LABEL_SETS
    return _PROBABILITIES if takes_probabilities(classifier.loss) else _CLASS
