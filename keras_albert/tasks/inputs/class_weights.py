"""Weights of classes, as every backend takes them."""

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any


def encode_class_weights(
    class_weight: Any, num_classes: int, labels: Sequence[str] | None
) -> dict[int, float]:
    """Turn what a user passes as `class_weight` into a weight for each class.

    Left to itself Keras looks classes up in other ways on each backend: a class that
    is missing has the weight 1, or is an error of TensorFlow's; an unknown one is
    ignored, and so is a NaN until the weights of the model are NaN.

    Args:
        class_weight: A dict of class names or numbers and their weights.
        num_classes: int. How many classes there are.
        labels: The names of the classes, or `None`.

    Returns:
        A weight for each class number; 1 for a class that the user left out.

    Raises:
        TypeError: If it is no dict, or a weight no number.
        ValueError: If a class is unknown, or a weight negative or not finite.

    Example:
        >>> encode_class_weights({"rare": 3}, 2, ("frequent", "rare"))
        {0: 1.0, 1: 3.0}
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
    for key, weight in class_weight.items():
        weights[_class_number(key, num_classes, names)] = _weight(key, weight)
    return weights


def _class_number(key: Any, num_classes: int, names: tuple[str, ...]) -> int:
    if key in names:
        return names.index(key)
    is_number = isinstance(key, Real) and not isinstance(key, bool)
    if is_number and key in range(num_classes):
        return int(key)
    known = f"0 to {num_classes - 1}"
    if names:
        known += f", or {', '.join(map(repr, names))}"
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
    number = float(weight)
    if not (math.isfinite(number) and number >= 0):
        msg = (
            "`class_weight` must hold finite numbers that are not negative. Received: "
            f"{weight} for the class {key!r}"
        )
        raise ValueError(msg)
    return number
