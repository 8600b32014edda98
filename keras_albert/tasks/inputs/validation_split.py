"""Validation sets from the end of the training data."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_albert.tasks.inputs.datasets import is_dataset
from keras_albert.tasks.inputs.targets import EncodedTargets
from keras_albert.text.packing import check_counts
from keras_albert.text.reading import TextColumns, text_columns

Examples = tuple[Any, Any, Any]


def split_validation(
    x: Any, y: Any, sample_weight: Any, fraction: float, columns_of: Any = text_columns
) -> tuple[Examples, Examples]:
    """Split examples in memory; the last ones are the validation set, as in Keras.

    Returns `(x, y, sample_weight)` twice; `x` is `TextColumns`, or a dict of ids.
    """
    if not 0 < fraction < 1 or is_dataset(x):
        msg = (
            "`validation_split` is a fraction between 0 and 1 of data in memory. "
            f"Received: validation_split={fraction}, x={type(x).__name__}. Pass "
            "`validation_data` instead."
        )
        raise ValueError(msg)
    if isinstance(x, Mapping) and "token_ids" in x:
        columns: Any = {name: np.asarray(column) for name, column in x.items()}
        count = len(columns["token_ids"])
    else:
        columns, _ = columns_of(x)
        count = len(columns[0])
    is_encoded = isinstance(y, EncodedTargets)
    if is_encoded:
        y = y.values
    check_counts(count, y, sample_weight)
    # Of examples, while the tuple `columns` is one of columns.
    y, sample_weight = (
        list(values) if isinstance(values, tuple) else values
        for values in (y, sample_weight)
    )
    cut = int(count * (1 - fraction))
    if cut in (0, count):
        msg = (
            f"`validation_split={fraction}` of {count} examples leaves one side empty. "
            "Use more data, or another fraction."
        )
        raise ValueError(msg)

    def part(rows: slice) -> Examples:
        inputs = _slice(columns, rows)
        if isinstance(inputs, tuple):
            inputs = TextColumns(inputs, True)
        targets = _slice(y, rows)
        if is_encoded:
            targets = EncodedTargets(targets)
        return inputs, targets, _slice(sample_weight, rows)

    return part(slice(0, cut)), part(slice(cut, count))


def _slice(values: Any, rows: slice) -> Any:
    """Take some rows of a list or an array, or of each in a tuple or a dict."""
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {name: _slice(part, rows) for name, part in values.items()}
    if isinstance(values, tuple):
        return tuple(_slice(part, rows) for part in values)
    return values[rows] if isinstance(values, list) else np.asarray(values)[rows]
