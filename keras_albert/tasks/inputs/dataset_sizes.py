"""Checks for empty and infinite data sets."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar

import keras

from keras_albert.tasks.inputs.datasets import SizedBatches, is_tf_dataset

_Result = TypeVar("_Result")


def dataset_size(dataset: Any) -> float | None:
    """Return the number of batches of a data set without reading any.

    The number is `math.inf` for an infinite data set, and `None` if it is unknown.
    """
    if is_tf_dataset(dataset):
        size = int(dataset.cardinality())
        # `tf.data.INFINITE_CARDINALITY` is -1, `tf.data.UNKNOWN_CARDINALITY` -2.
        return size if size >= 0 else {-1: math.inf}.get(size)
    if isinstance(dataset, keras.utils.PyDataset) and dataset.num_batches is None:
        return math.inf
    try:
        size = len(dataset)
    except (NotImplementedError, TypeError):
        return None
    # The length of an infinite data set of grain.
    return size if size < sys.maxsize else math.inf


def num_steps(dataset: Any) -> int | None:
    """Return the number of batches of an epoch; `None` if it is unknown or infinite."""
    size = dataset_size(dataset)
    return None if size is None or size == math.inf else int(size)


def check_size(dataset: Any, argument: str, steps: int | None, option: str) -> None:
    """Check that a data set is not known to be empty or infinite."""
    size = dataset_size(dataset)
    if size == 0:
        raise _empty(argument)
    if size == math.inf and steps is None:
        msg = (
            f"`{argument}` is an infinite data set, and `{option}` is None. Pass "
            f"`{option}`, or limit the data set with `.take(n)`."
        )
        raise ValueError(msg)


def read_each_epoch(dataset: Any, argument: str, steps: int | None, option: str) -> Any:
    """Return a data set that can be read in each of several epochs.

    Of a stream of unknown length Keras would read the first batches again, and end.
    """
    is_known = dataset_size(dataset) is not None or is_tf_dataset(dataset)
    if is_known or steps is not None:
        return dataset
    if isinstance(dataset, Iterator):
        msg = (
            f"`{argument}` is an iterator, which can be read once, and `epochs` is "
            f"above 1. Pass `{option}`, or what can be iterated again, such as a list "
            "of batches or a `keras.utils.PyDataset`."
        )
        raise ValueError(msg)
    return SizedBatches(dataset.__iter__, sum(1 for _ in dataset))


def check_first(batches: Iterable[Any], argument: str) -> Iterable[Any]:
    """Check that there is a first batch."""
    remaining = iter(batches)
    for first in remaining:
        return chain([first], remaining)
    raise _empty(argument)


def run_on(call: Callable[[], _Result], datasets: dict[str, Any]) -> _Result:
    """Call a method of Keras, and check that no data set of unknown size was empty.

    Reading a batch beforehand would fill shuffle buffers twice, and lose a batch of a
    generator that can be iterated only once.
    """
    unsized = {
        argument: dataset
        for argument, dataset in datasets.items()
        if is_tf_dataset(dataset) and dataset_size(dataset) is None
    }
    try:
        result = call()
    except Exception:
        # Keras raises many errors without a batch, depending on the backend, the
        # method, and whether the model has run before.
        _check_unsized(unsized)
        raise
    metrics = getattr(result, "history", result)
    if isinstance(metrics, dict | list) and not metrics:
        _check_unsized(unsized)
    elif isinstance(metrics, dict) and not any(x.startswith("val_") for x in metrics):
        unsized.pop("x", None)
        _check_unsized(unsized)
    return result


def _check_unsized(datasets: dict[str, Any]) -> None:
    for argument, dataset in datasets.items():
        check_first(dataset.take(1), argument)


def _empty(argument: str) -> ValueError:
    return ValueError(
        f"`{argument}` is an empty data set: it has no batch. Check the files that it "
        "reads, and its calls of `filter`, `skip` and `take`."
    )
