"""When a text may leave a model with exits."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.types import FloatArray
from keras_albert.utils.arguments import check_positive


@dataclass(frozen=True)
class ExitRule:
    """A rule by which texts leave a classifier; exactly one of the first two is set.

    A text leaves after `patience` agreements of exits in a row, or at a probability of
    `threshold`; scores agree within `tolerance`.
    """

    patience: int | None
    threshold: float | None
    tolerance: float | None = None

    def agree(
        self, classifier: Any, outputs: FloatArray, previous: FloatArray
    ) -> npt.NDArray[np.bool_]:
        """Return for each row whether two exits have the same answer."""
        if self.tolerance is not None:
            return np.asarray(np.abs(outputs - previous)[:, 0] <= self.tolerance)
        if classifier.is_multi_label:
            return np.asarray(((outputs > 0.5) == (previous > 0.5)).all(axis=-1))
        return np.asarray(outputs.argmax(axis=-1) == previous.argmax(axis=-1))

    def is_confident(
        self, classifier: Any, outputs: FloatArray
    ) -> npt.NDArray[np.bool_]:
        """Return for each row whether an exit is confident in its answer.

        With several labels, the least certain one decides.
        """
        probabilities = classifier.probabilities(outputs)
        if classifier.is_multi_label:
            certain = np.maximum(probabilities, 1 - probabilities).min(axis=-1)
        else:
            certain = probabilities.max(axis=-1)
        return np.asarray(certain >= self.threshold)


def read_exit_rule(
    classifier: Any,
    patience: Any = None,
    threshold: Any = None,
    tolerance: Any = None,
    num_layers: Any = None,
) -> ExitRule | None:
    """Check the arguments that let texts leave early; see `ExitRule`."""
    given = {"patience": patience, "threshold": threshold, "num_layers": num_layers}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        msg = f"Pass one of `patience`, `threshold` and `num_layers`. Received: {names}"
        raise ValueError(msg)
    is_scored = patience is not None and classifier.is_regression
    if is_scored != (tolerance is not None):
        msg = (
            "`tolerance` is the difference of scores that agree: a regression takes it "
            f"with `patience`, and nothing else does. Received: patience={patience!r}, "
            f"tolerance={tolerance!r}, num_classes={classifier.num_classes}"
        )
        raise ValueError(msg)
    if num_layers is not None and classifier.exits:
        _check_exit(num_layers, classifier.exits)
    if patience is None and threshold is None:
        return None
    if not classifier.exits:
        msg = (
            f"`{names[0]}` needs a head after each layer, and this classifier has "
            "only the last one. Train one that is built with `exits=True`, or run "
            "fewer layers with `num_layers`."
        )
        raise ValueError(msg)
    if patience is not None:
        _check_patience(patience, classifier.backbone.num_layers)
    if tolerance is not None and not _is_above(tolerance, 0):
        msg = f"`tolerance` must be a number above 0. Received: tolerance={tolerance!r}"
        raise ValueError(msg)
    if threshold is not None:
        _check_threshold(threshold, classifier.is_regression)
    return ExitRule(patience, threshold, tolerance)


def _check_exit(num_layers: Any, exits: int) -> None:
    check_positive(num_layers=num_layers)
    if num_layers > exits:
        msg = (
            f"The model has heads after {exits} layers. Received: "
            f"num_layers={num_layers}. Run fewer, or train a deeper model."
        )
        raise ValueError(msg)


def _check_patience(patience: Any, num_layers: int) -> None:
    check_positive(patience=patience)
    if patience > num_layers - 2:
        msg = (
            f"With `patience={patience}` no text can leave a model of {num_layers} "
            "layers before the last one, because the first exit agrees with none. The "
            f"largest patience is {num_layers - 2}."
        )
        raise ValueError(msg)


def _check_threshold(threshold: Any, is_regression: bool) -> None:
    if is_regression:
        msg = (
            "A score has no probability to compare with `threshold`. Pass `patience` "
            "and `tolerance`."
        )
        raise ValueError(msg)
    if not (_is_above(threshold, 0) and threshold < 1):
        msg = (
            "`threshold` must be a probability between 0 and 1. Received: "
            f"threshold={threshold!r}"
        )
        raise ValueError(msg)


def _is_above(value: Any, least: float) -> bool:
    is_number = isinstance(value, int | float | np.number)
    return is_number and not isinstance(value, bool) and least < value < np.inf
