"""Data sets that give no batch, or never end."""

import math
import sys
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, TypeVar

import keras

from keras_albert.tasks.datasets import is_tf_dataset

_Result = TypeVar("_Result")

# What Keras raises, depending on the backend and the method, if there is no batch.
_NO_BATCH = (StopIteration, TypeError, UnboundLocalError)


def dataset_size(dataset: Any) -> float | None:
    """Count the batches of a data set without reading any.

    Args:
        dataset: A data set, as `fit` takes it.

    Returns:
        The number; `math.inf` where there is no end of them, `None` where nobody
        knows.

    Example:
        >>> import tensorflow as tf
        >>> numbers = tf.data.Dataset.range(3)
        >>> dataset_size(numbers), dataset_size(numbers.repeat())
        (3, inf)
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
    # grain's `repeat()` has no other way to say it.
    return size if size < sys.maxsize else math.inf


def check_size(dataset: Any, argument: str, steps: int | None, option: str) -> None:
    """Refuse a data set that is known to be empty, or infinite.

    Args:
        dataset: A data set, as `fit` takes it.
        argument: string. The argument that it was passed as.
        steps: int or `None`. How many batches are to be read; `None` for all.
        option: string. The argument that says how many.

    Raises:
        ValueError: If there is no batch, or no end of them and `steps` is `None`.
    """
    size = dataset_size(dataset)
    if size == 0:
        raise _empty(argument)
    if size == math.inf and steps is None:
        msg = (
            f"`{argument}` is a data set without an end, and `{option}` is None. Pass "
            f"`{option}`, or the first batches alone: `.take(n)`."
        )
        raise ValueError(msg)


def check_first(batches: Iterable[Any], argument: str) -> Iterable[Any]:
    """Refuse batches of unknown number if there are none.

    Args:
        batches: An iterable, which is iterated once.
        argument: string. The argument that it was passed as.

    Returns:
        The batches, the first that was read included.

    Raises:
        ValueError: If there is none.
    """
    remaining = iter(batches)
    for first in remaining:
        return chain([first], remaining)
    raise _empty(argument)


def run_on(call: Callable[[], _Result], datasets: dict[str, Any]) -> _Result:
    """Run what reads data sets of TensorFlow, some perhaps of unknown size.

    Whether one is empty shows only as it is read. Reading ahead would fill shuffle
    buffers twice, and lose a batch of a generator that runs once.

    Args:
        call: Callable without arguments, a method of `keras.Model`.
        datasets: The data sets, by the argument that each was passed as.

    Returns:
        What `call` returns.

    Raises:
        ValueError: If one of the data sets gave no batch.
    """
    unsized = {
        argument: dataset
        for argument, dataset in datasets.items()
        if is_tf_dataset(dataset) and dataset_size(dataset) is None
    }
    try:
        result = call()
    except _NO_BATCH:
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
        f"`{argument}` is an empty data set: it has no batch. Check what it reads, and "
        "what it filters, skips or takes."
    )
