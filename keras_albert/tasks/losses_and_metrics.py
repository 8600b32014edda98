"""Losses and metrics of `compile`, in the form of a head's outputs and targets."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import keras
from keras import ops

from keras_albert.data.labels import loss_name
from keras_albert.layers.base_layer import config_from_attributes
from keras_albert.types import Tensor

# Losses with `from_logits`, by the name that Keras also uses for their functions.
_CROSSENTROPIES = {
    cls.__name__.lower(): cls
    for cls in (
        keras.losses.BinaryCrossentropy,
        keras.losses.BinaryFocalCrossentropy,
        keras.losses.CategoricalCrossentropy,
        keras.losses.CategoricalFocalCrossentropy,
        keras.losses.SparseCategoricalCrossentropy,
    )
}
# Losses that read outputs as probabilities in any case.
_OF_PROBABILITIES = {"kldivergence", "categoricalgeneralizedcrossentropy"}

_CROSSENTROPY = ("crossentropy", "ce")
# Names of which Keras chooses a metric by the shape of targets.
_BY_SHAPE = ("accuracy", "acc", *_CROSSENTROPY)

# Scores with the names and the values of scikit-learn's, in `ClassScore`.
_SCORES = ("f1", "precision", "recall", "mcc")
# Of the curve between "auc" and its exact value, which would need all predictions.
_THRESHOLDS = 1000

# Metrics that compare a probability of each class with its target, 0 or 1.
_BY_CLASS = {
    keras.metrics.AUC,
    keras.metrics.BinaryAccuracy,
    keras.metrics.BinaryCrossentropy,
    keras.metrics.CategoricalAccuracy,
    keras.metrics.CategoricalCrossentropy,
    keras.metrics.F1Score,
    keras.metrics.FBetaScore,
    keras.metrics.FalseNegatives,
    keras.metrics.FalsePositives,
    keras.metrics.KLDivergence,
    keras.metrics.Precision,
    keras.metrics.PrecisionAtRecall,
    keras.metrics.Recall,
    keras.metrics.RecallAtPrecision,
    keras.metrics.SensitivityAtSpecificity,
    keras.metrics.SpecificityAtSensitivity,
    keras.metrics.TopKCategoricalAccuracy,
    keras.metrics.TrueNegatives,
    keras.metrics.TruePositives,
}
# A metric that compares a probability of each class with the number of the right one.
_BY_NUMBER = {keras.metrics.SparseCategoricalCrossentropy}


def match_loss(loss: Any, are_logits: bool | None) -> Any:
    """Return a loss that reads outputs as the head returns them."""
    if isinstance(loss, Mapping):
        return {name: match_loss(part, are_logits) for name, part in loss.items()}
    if isinstance(loss, list | tuple):
        return [match_loss(part, are_logits) for part in loss]
    if isinstance(loss, str) and loss in ("auto", *_CROSSENTROPY):
        return "auto"
    if isinstance(loss, str):
        _check_name("loss", loss, keras.losses)
    elif not (loss is None or callable(loss)):
        raise TypeError(f"`loss` must be a name or a function. Received: {loss!r}")
    if loss is None or are_logits is None:
        return loss
    name, is_object = loss_name(loss), isinstance(loss, keras.losses.Loss)
    if name in _CROSSENTROPIES and not is_object:
        return _CROSSENTROPIES[name](from_logits=are_logits)
    reads_logits = getattr(loss, "from_logits", None) if is_object else None
    if reads_logits is None and name in _CROSSENTROPIES:
        # The sparse one has no such attribute in Keras 3.16.
        reads_logits = loss.get_config().get("from_logits")
    if name in _OF_PROBABILITIES:
        reads_logits = False
    if reads_logits is None or bool(reads_logits) == are_logits:
        return loss
    kinds = ("probabilities", "logits")
    remedy = (
        f"Pass `from_logits={are_logits}` to it"
        if name in _CROSSENTROPIES
        else "Pass a cross-entropy"
    )
    raise ValueError(
        f"{type(loss).__name__} reads {kinds[bool(reads_logits)]}, but this model "
        f"returns {kinds[are_logits]}. {remedy}, or leave out `loss`."
    )


def check_metric_names(**metrics: Any) -> None:
    """Check names of metrics, which Keras would refuse in the first step only."""
    for argument, given in metrics.items():
        if given == "auto":
            continue
        if isinstance(given, str):
            raise TypeError(f"`{argument}` must be a list: pass [{given!r}].")
        for each in keras.tree.flatten(given):
            if isinstance(each, str) and each not in (*_BY_SHAPE, *_SCORES):
                _check_name("metric", each, keras.metrics)


def _check_name(kind: str, name: str, module: Any) -> None:
    try:
        module.get(name)
    except ValueError:
        near = get_close_matches(name, [*dir(module), *_BY_SHAPE, *_SCORES], n=1)
        remedy = (
            f"Did you mean {near[0]!r}?" if near else "Pass a function or an object."
        )
        raise ValueError(f"Keras has no {kind} {name!r}. {remedy}") from None


def match_metrics(
    metrics: Any,
    num_classes: int,
    takes_numbers: bool,
    activation: str | None,
    threshold: float | None = None,
) -> Any:
    """Let metrics by class read the outputs and targets of a classifier."""
    # `threshold` is set where a text may have several labels.
    arguments = (num_classes, takes_numbers, activation, threshold)
    if isinstance(metrics, Mapping):
        return {k: match_metrics(part, *arguments) for k, part in metrics.items()}
    if isinstance(metrics, list | tuple):
        return [match_metrics(part, *arguments) for part in metrics]
    metric = metrics
    if threshold is not None and metric in ("accuracy", "acc"):
        # Keras would choose by shape, and compare the most likely label alone.
        return keras.metrics.BinaryAccuracy(name=metric)
    if metric in (*_SCORES, "auc"):
        metric = _named_metric(metric, num_classes, threshold)
    elif isinstance(metric, str):
        # Keras would choose a cross-entropy of probabilities by shape.
        kind = {"softmax": "categorical"}.get(activation or "", "binary")
        name = f"{'sparse_categorical' if takes_numbers else kind}_crossentropy"
        try:
            metric = keras.metrics.get(name if metric in _CROSSENTROPY else metric)
        except ValueError:
            # "accuracy", which Keras chooses by shape, or an unknown name.
            return metrics
    one_hot = takes_numbers and type(metric) in _BY_CLASS
    if type(metric) not in _BY_CLASS | _BY_NUMBER:
        return metrics
    # As Keras names it.
    name = metrics if isinstance(metrics, str) else metric.name
    return ClassMetric(metric, num_classes, one_hot, activation, name)


def _named_metric(
    name: str, num_classes: int, threshold: float | None
) -> keras.metrics.Metric:
    if num_classes == 1:
        msg = f"{name!r} is a metric for classes, but this model returns scores."
        raise ValueError(msg)
    if name == "mcc" and threshold is not None:
        raise ValueError(
            "'mcc' compares one class per text, but here a text may have several "
            "labels. Leave it out."
        )
    if name == "auc":
        # The mean over classes, each against the others.
        return keras.metrics.AUC(
            _THRESHOLDS, multi_label=True, num_labels=num_classes, name=name
        )
    return ClassScore(name, num_classes, threshold)


@keras.saving.register_keras_serializable(package="keras_albert")
class ClassScore(keras.metrics.Metric):
    """Precision, recall, F1, as the mean over classes, or Matthews' correlation."""

    # Values equal scikit-learn's (`average="macro"`), on all data: Keras has no
    # Matthews' correlation, and compares probabilities with 0.5 for precision.

    def __init__(
        self,
        score: str,
        num_classes: int,
        threshold: float | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name or score)
        self.score = score
        self.num_classes = num_classes
        self.threshold = threshold
        # True positives, predictions and targets of each class.
        self.counts = self.add_weight((3, num_classes), initializer="zeros")

    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Tensor:
        """Add rows of targets and probabilities, `(examples, num_classes)`."""
        target, answer = self._flags(y_true), self._flags(y_pred)
        rows = ops.stack([target * answer, answer, target])
        if sample_weight is not None:
            rows *= ops.expand_dims(ops.cast(sample_weight, rows.dtype), -1)
        self.counts.assign_add(ops.sum(rows, axis=1))
        return self.counts

    def _flags(self, values: Any) -> Tensor:
        if self.threshold is not None:
            return ops.cast(values > self.threshold, "float32")
        best = ops.argmax(values, axis=-1)
        return ops.one_hot(best, self.num_classes, dtype="float32")

    def result(self) -> Tensor:
        """Return the score."""
        right, answers, targets = ops.unstack(ops.convert_to_tensor(self.counts))
        if self.score == "mcc":
            total = ops.sum(targets)
            covariance = ops.sum(right) * total - ops.sum(answers * targets)
            spreads = [total**2 - ops.sum(x**2) for x in (answers, targets)]
            spread = ops.sqrt(ops.relu(spreads[0])) * ops.sqrt(ops.relu(spreads[1]))
            return ops.divide_no_nan(covariance, spread)
        divisors = {
            "precision": answers,
            "recall": targets,
            "f1": (answers + targets) / 2,
        }
        values = ops.divide_no_nan(right, divisors[self.score])
        if self.threshold is not None:
            return ops.mean(values)
        # A class that no row has, and no answer, does not count.
        occurs = ops.cast(answers + targets > 0, values.dtype)
        return ops.divide_no_nan(ops.sum(values), ops.sum(occurs))

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return config_from_attributes(self, ClassScore)


_BY_CLASS.add(ClassScore)


@keras.saving.register_keras_serializable(package="keras_albert")
class ClassMetric(keras.metrics.Metric):
    """A metric of Keras that reads a classifier's outputs and targets."""

    def __init__(
        self,
        metric: keras.metrics.Metric,
        num_classes: int,
        one_hot: bool,
        activation: str | None,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name or metric.name)
        self.metric = metric
        self.num_classes = num_classes
        self.one_hot = one_hot
        self.activation = activation
        self._reads_logits = metric.get_config().get("from_logits", False)

    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Tensor:
        """Add a batch; tokens of all rows are rows of their own."""
        y_pred = ops.reshape(ops.convert_to_tensor(y_pred), (-1, self.num_classes))
        if self.activation and not self._reads_logits:
            y_pred = keras.activations.get(self.activation)(y_pred)
        y_true = ops.convert_to_tensor(y_true)
        if self.one_hot:
            numbers = ops.cast(ops.reshape(y_true, (-1,)), "int32")
            y_true = ops.one_hot(numbers, self.num_classes, dtype=y_pred.dtype)
        elif type(self.metric) in _BY_CLASS:
            y_true = ops.reshape(y_true, (-1, self.num_classes))
        else:
            y_true = ops.reshape(y_true, (-1,))
        if sample_weight is not None:
            sample_weight = ops.reshape(ops.convert_to_tensor(sample_weight), (-1,))
        return self.metric.update_state(y_true, y_pred, sample_weight)

    def result(self) -> Any:
        """Return the result of the metric."""
        return self.metric.result()

    def reset_state(self) -> None:
        """Reset the metric."""
        self.metric.reset_state()

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "metric": keras.saving.serialize_keras_object(self.metric),
            "num_classes": self.num_classes,
            "one_hot": self.one_hot,
            "activation": self.activation,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ClassMetric":
        """Create the metric from `get_config`."""
        metric = keras.saving.deserialize_keras_object(config["metric"])
        return cls(**{**config, "metric": metric})


@keras.saving.register_keras_serializable(package="keras_albert")
class TokenAccuracy(keras.metrics.Mean):
    """The share of labels that have the highest score, among those with a weight."""

    # Keras searches for the position of the highest score, which takes ten times as
    # long on PyTorch's CPUs.

    def __init__(self, name: str = "accuracy", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def update_state(
        self, y_true: Any, y_pred: Any, sample_weight: Any = None
    ) -> Tensor:
        """Add a batch."""
        y_pred = ops.convert_to_tensor(y_pred)
        labels = ops.cast(ops.convert_to_tensor(y_true), "int32")
        scores = ops.take_along_axis(y_pred, ops.expand_dims(labels, -1), axis=-1)
        is_best = ops.squeeze(scores, -1) >= ops.max(y_pred, axis=-1)
        right = ops.cast(is_best, "float32")
        if sample_weight is not None:
            weight = ops.cast(sample_weight, "float32")
            while len(weight.shape) < len(right.shape):
                weight = ops.expand_dims(weight, -1)
            sample_weight = ops.reshape(weight * ops.ones_like(right), (-1,))
        # Flat, since Keras computes the mean of each row first: a token would count
        # more in a batch of fewer slots.
        return super().update_state(ops.reshape(right, (-1,)), sample_weight)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"name": self.name, "dtype": self.dtype}
