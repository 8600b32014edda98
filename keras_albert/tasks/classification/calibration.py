"""Probabilities that mean what they say, and sets of answers with a known error."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.data.tables import read_data
from keras_albert.tasks.predict import softmax
from keras_albert.types import Task
from keras_albert.utils.arguments import check_rates
from keras_albert.utils.environment import check_packages

Floats = npt.NDArray[np.float64]

# Temperatures from 1/20 to 20.
_LOG_RANGE = math.log(20)


def calibrate(
    classifier: Task, x: Any, y: Any, error_rate: float | None
) -> dict[str, float]:
    """Scale the head, and set the threshold; see `AlbertClassifier.calibrate`."""
    if classifier.is_regression or classifier.outputs_are_logits is False:
        raise ValueError(
            "`calibrate` works for single-label classifiers that return logits. "
            f"Received: num_classes={classifier.num_classes}, activation="
            f"{getattr(classifier.activation, '__name__', classifier.activation)}"
        )
    if error_rate is not None:
        check_rates(error_rate=error_rate)
        if error_rate in (0, 1):
            msg = (
                "`error_rate` must be between 0 and 1. Received: "
                f"error_rate={error_rate}"
            )
            raise ValueError(msg)
    check_packages("Calibration", "scipy", "scipy")
    classifier.require_preprocessor("calibrate")
    x, y, *_ = read_data(x, y, columns=classifier.traits.columns)
    targets = np.asarray(classifier.encode_targets(y))
    if targets.ndim > 1:
        targets = targets.argmax(-1)
    logits = np.asarray(classifier.predict(x, verbose=0), np.float64)
    if len(targets) != len(logits):
        msg = f"`x` has {len(logits)} texts, but `y` has {len(targets)} labels."
        raise ValueError(msg)
    if not len(targets):
        raise ValueError("There are no examples: `x` is empty. Pass labelled texts.")
    if len(classes := np.unique(targets)) < 2:
        raise ValueError(
            f"All {len(targets)} texts have the label "
            f"{classifier.class_names[classes[0]]!r}, but calibration needs several "
            "classes. Pass texts of others, too."
        )
    # Rows that chose the temperature are no fair sample for the threshold.
    first, rest = slice(0, None, 2), slice(1, None, 2)
    if error_rate is None:
        first = rest = slice(None)
    temperature = find_temperature(logits[first], targets[first])
    losses = cross_entropies(logits[rest] / temperature, targets[rest])
    result = {
        "temperature": temperature,
        "loss_before": float(cross_entropies(logits[rest], targets[rest]).mean()),
        "loss": float(losses.mean()),
    }
    threshold = None
    if error_rate is not None:
        probabilities = softmax(logits[rest] / temperature)
        threshold = set_threshold(probabilities, targets[rest], error_rate)
        sizes = label_sets(probabilities, threshold).sum(-1)
        result |= {"threshold": threshold, "mean_set_size": float(sizes.mean())}
    for weight in classifier.output_dense.weights:
        weight.assign(weight / temperature)
    classifier.set_threshold = threshold
    return result


def find_temperature(
    logits: Floats, targets: npt.NDArray[Any], weights: Any = None, prior: float = 0.0
) -> float:
    """Return the divisor of the logits with the lowest cross-entropy."""
    # [Guo et al., 2017](https://arxiv.org/abs/1706.04599); `prior` is the precision of
    # its logarithm.
    from scipy.optimize import minimize_scalar  # noqa: PLC0415  (an extra)

    if not prior and (logits.argmax(-1) == targets).all():
        # Without an error, a lower temperature is always better.
        return 1.0

    def loss(log: float) -> float:
        rows = cross_entropies(logits / math.exp(log), targets)
        return float(np.average(rows, weights=weights)) + prior * log**2 / 2

    found = minimize_scalar(loss, bounds=(-_LOG_RANGE, _LOG_RANGE), method="bounded")
    return math.exp(found.x)


def cross_entropies(logits: Floats, targets: npt.NDArray[Any]) -> Floats:
    """Return the cross-entropy of each row."""
    least = logits - logits.max(-1, keepdims=True)
    total = np.log(np.exp(least).sum(-1))
    return total - least[np.arange(len(targets)), targets]


def set_threshold(
    probabilities: Floats, targets: npt.NDArray[Any], error_rate: float
) -> float:
    """Return the probability from which on labels belong to the set of answers."""
    # Split conformal prediction: of exchangeable texts, the set lacks the true label of
    # at most `error_rate` on average ([Sadinle et al., 2019](
    # https://arxiv.org/abs/1609.00451)).
    count = len(targets)
    rank = math.floor((count + 1) * error_rate)
    if rank < 1:
        least = 2 * (math.ceil(1 / error_rate) - 1)
        raise ValueError(
            f"`error_rate={error_rate}` needs at least {least} texts, half of them for "
            f"the threshold. Received: {count} for the threshold. Pass more, or a "
            "higher rate."
        )
    return float(np.sort(probabilities[np.arange(count), targets])[rank - 1])


def label_sets(probabilities: Any, threshold: float) -> npt.NDArray[np.bool_]:
    """Return for each class whether it is in the set; the most likely one always is."""
    least = np.minimum(probabilities.max(-1, keepdims=True), threshold)
    return probabilities >= least
