"""Class weights, in the form that every backend takes."""

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from keras_albert.tasks.inputs.labels import are_integer_names


def encode_class_weights(
    class_weight: Any, num_classes: int, labels: Sequence[str] | None
) -> dict[int, float]:
    """Return a weight for each class.

    Keras itself handles classes differently on each backend: for a class without a
    weight it uses 1, or TensorFlow fails; it ignores an unknown class, and a NaN makes
    the weights of the model NaN. The weight of a class that is not passed is 1.
    """
    if not isinstance(class_weight, Mapping):
        msg = (
            "`class_weight` must be a dict of classes and their weights, for example "
            "`{0: 1.0, 1: 3.0}`. Received: "
            f"class_weight={class_weight!r}"
        )
        raise TypeError(msg)
    names = tuple(labels or ())
    weights = dict.fromkeys(range(num_classes), 1.0)
    keys: dict[int, Any] = {}
    for key, weight in class_weight.items():
        number = _class_number(key, num_classes, names)
        if number in keys:
            msg = (
                f"`class_weight` has {keys[number]!r} and {key!r}, which are the same "
                "class. Leave out one of them."
            )
            raise ValueError(msg)
        keys[number] = key
        weights[number] = _weight(key, weight)
    return weights


def _class_number(key: Any, num_classes: int, names: tuple[str, ...]) -> int:
    if key in names:
        return names.index(key)
    is_number = isinstance(key, Real) and not isinstance(key, bool)
    if are_integer_names(names):
        # As in targets.
        if is_number and key % 1 == 0 and str(int(key)) in names:
            return names.index(str(int(key)))
    elif is_number and key in range(num_classes):
        return int(key)
    known = "" if are_integer_names(names) else f"0 to {num_classes - 1}, or "
    known = f"{known}{', '.join(map(repr, names))}".removesuffix(", or ")
    msg = (
        f"`class_weight` has {key!r}, which is no class of the model. Its classes are: "
        f"{known}."
    )
    if isinstance(key, str) and not names:
        msg += " Pass `labels=[...]` to the model to name them."
    raise ValueError(msg)


def _weight(key: Any, weight: Any) -> float:
    if not isinstance(weight, Real):
        msg = (
            f"`class_weight` must hold numbers. Received: {weight!r} for the class "
            f"{key!r}"
        )
        raise TypeError(msg)
    # Losses are computed in float32, in which larger numbers are infinite.
    with np.errstate(over="ignore"):
        number = float(np.float32(weight))
    if not (math.isfinite(number) and number >= 0):
        msg = (
            "`class_weight` must hold finite numbers that are not negative. Received: "
            f"{weight} for the class {key!r}"
        )
        raise ValueError(msg)
    return number
