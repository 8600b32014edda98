"""Whether the weights of a task's head are still those of its constructor."""

import warnings
from typing import Any

import keras
import numpy as np

from keras_albert.utils.keras_internals import has_no_value


class RandomHead:
    """The first rows of the matrices of a head, as the constructor made them.

    Whatever trains, loads or sets the head changes them.
    """

    def __init__(self, task: Any) -> None:
        in_backbone = {id(weight) for weight in task.backbone.weights}
        self._rows = [
            (layer.name, weight, _first_row(weight))
            for layer in task.layers
            for weight in layer.trainable_weights
            if len(weight.shape) > 1 and id(weight) not in in_backbone
        ]
        self._checked: set[str] = set()

    def warn(self, task: Any, method: str, layer: str | None = None) -> None:
        """Warn, once, in a method that returns what a random head made up."""
        if method in self._checked:
            return
        self._checked.add(method)
        rows = [row[1:] for row in self._rows if layer in (None, row[0])]
        if rows and all(_is_same(*row) for row in rows):
            msg = (
                f"The head of this {type(task).__name__} that `{method}` uses has "
                "random weights, so the result means nothing: call `fit`, or load a "
                "preset that was saved with the head."
            )
            warnings.warn(msg, stacklevel=3)


def _first_row(weight: Any) -> Any:
    # A copy, since PyTorch would return a view.
    return keras.ops.copy(keras.ops.stop_gradient(weight[0]))


def _is_same(weight: Any, row: Any) -> bool:
    # On JAX `fit` in another thread has the value.
    if has_no_value(weight):
        return False
    return np.array_equal(*map(keras.ops.convert_to_numpy, (weight[0], row)))
