"""Holding out the end of the training data."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_albert.tasks.datasets import is_dataset
from keras_albert.tasks.model_input import check_counts
from keras_albert.text.text_columns import text_columns

Examples = tuple[Any, Any, Any]


def split_validation(
    x: Any, y: Any, sample_weight: Any, fraction: float
) -> tuple[Examples, Examples]:
    """Split examples in memory, the last ones being held out, as Keras does.

    Args:
        x: Texts or pairs, or a dict of arrays.
        y: Targets.
        sample_weight: Weights, or `None`.
        fraction: float. The part to hold out, between 0 and 1.

    Returns:
        `(x, y, sample_weight)` to train on, and the same held out.

    Raises:
        ValueError: If `x` is a data set, one side would be empty, or there are not as
            many targets or weights as examples.

    Example:
        >>> split_validation(["a", "b", "c", "d"], [0, 1, 0, 1], None, 0.25)[1][0]
        ['d']
    """
    if not 0 < fraction < 1 or is_dataset(x):
        msg = (
            "`validation_split` is a fraction between 0 and 1 of data in memory. "
            f"Received: validation_split={fraction}, x={type(x).__name__}. Pass "
            "`validation_data` instead."
        )
        raise ValueError(msg)
    columns = _columns(x)
    count = len(columns["token_ids"] if isinstance(columns, dict) else columns[0])
    check_counts(count, y, sample_weight)
    cut = int(count * (1 - fraction))
    if cut in (0, count):
        msg = (
            f"`validation_split={fraction}` of {count} examples leaves one side empty. "
            "Use more data, or another fraction."
        )
        raise ValueError(msg)

    def part(rows: slice) -> Examples:
        if isinstance(columns, dict):
            inputs: Any = {name: column[rows] for name, column in columns.items()}
        else:
            texts = tuple(column[rows] for column in columns)
            inputs = texts if len(texts) > 1 else texts[0]
        targets, weights = (
            None if values is None else np.asarray(values)[rows]
            for values in (y, sample_weight)
        )
        return inputs, targets, weights

    return part(slice(0, cut)), part(slice(cut, count))


def _columns(x: Any) -> Any:
    if isinstance(x, Mapping):
        return {name: np.asarray(column) for name, column in x.items()}
    return text_columns(x)[0]
