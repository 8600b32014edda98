"""Losses of a part of the rows that add up to the loss of the whole batch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras

_BY_WEIGHT = "mean_with_sample_weight"


def losses_by_weight(model: Any, weights: Any) -> list[Any]:
    """Return the losses that divide by the sum of weights, if there are weights."""
    loss = None if weights is None else model.loss
    losses = loss.values() if isinstance(loss, dict) else [loss]
    return [each for each in losses if getattr(each, "reduction", "") == _BY_WEIGHT]


@contextmanager
def summed(losses: Sequence[Any]) -> Iterator[None]:
    """Set losses by weight to sum what is weighted, as `divide_weights` returns it."""
    for loss in losses:
        loss.reduction = "sum"
    try:
        yield
    finally:
        for loss in losses:
            loss.reduction = _BY_WEIGHT


def divide_weights(
    loss: Any, losses: Sequence[Any], weights: Any, total: Callable[[Any], Any]
) -> Any:
    """Divide the weights of `losses` by their `total`, in place of the loss."""

    def divide(weight: Any, loss: Any) -> Any:
        if weight is None or all(loss is not each for each in losses):
            return weight
        return keras.ops.divide_no_nan(weight, total(weight))

    if not isinstance(loss, dict):
        return divide(weights, loss)
    named = weights if isinstance(weights, dict) else dict.fromkeys(loss, weights)
    return {name: divide(named[name], loss[name]) for name in named}
