"""Multi-label targets, as rows of zeros and ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.tasks.inputs.tables import column_names
from keras_albert.text.reading import plain_column
from keras_albert.types import FloatArray


def encode_label_sets(
    y: Any, num_classes: int, labels: Sequence[str] | None
) -> FloatArray:
    """Encode the labels of examples as zeros and ones.

    `y` is a list of labels for each example, an array `(examples, num_classes)` of
    zeros and ones, or a table with such a column for each label.
    """
    if hasattr(y, "detach"):
        y = y.detach().cpu()
    rows = list(indicators(y, labels) if indicator_names(y) else plain_column(y))
    encoded = np.zeros((len(rows), num_classes), np.float32)
    numbers = {name: number for number, name in enumerate(labels or ())}
    for row, value in enumerate(rows):
        if _holds_names(value):
            for name in value:
                if name not in numbers:
                    known = ", ".join(map(repr, numbers)) or "none: pass `labels=[...]`"
                    msg = (
                        f"Row {row} has the label {name!r}, which the model does not "
                        f"have. Its labels are: {known}. Correct or drop it."
                    )
                    raise ValueError(msg)
                encoded[row, numbers[name]] = 1
            continue
        try:
            flags = np.asarray(value, np.float32)
        except (TypeError, ValueError):
            flags = np.empty(0, np.float32)
        if flags.shape != (num_classes,) or not np.isin(flags, (0, 1)).all():
            msg = (
                f"Row {row} has the labels {value!r}. Where a text may have several "
                "(`activation='sigmoid'`), pass the list of their names, or "
                f"{num_classes} zeros and ones."
            )
            raise ValueError(msg)
        encoded[row] = flags
    return encoded


def indicator_names(y: Any) -> tuple[str, ...]:
    """Return the names of a table with a column for each class, `()` for others."""
    names = column_names(y) or []
    is_named = len(names) > 1 and all(isinstance(name, str) for name in names)
    return tuple(names) if is_named else ()


def indicators(y: Any, labels: Sequence[str] | None) -> npt.NDArray[Any]:
    """Return the columns of a table, `indicator_names`, in the order of the labels."""
    names = indicator_names(y)
    if set(labels or names) != set(names):
        msg = (
            f"The targets have the columns {', '.join(map(repr, names))}, and the "
            f"labels of the model are {', '.join(map(repr, labels or ()))}. Pass one "
            "column for each label."
        )
        raise ValueError(msg)
    columns = [np.asarray(plain_column(y[name])) for name in labels or names]
    return np.stack(columns, axis=1)


def set_names(y: Any) -> tuple[str, ...]:
    """Return the distinct names among sets of labels, sorted; those of columns."""
    if columns := indicator_names(y):
        return columns
    names = {name for row in y if _holds_names(row) for name in row}
    return tuple(sorted(names))


def _holds_names(row: Any) -> bool:
    is_set = isinstance(row, list | tuple | set | frozenset)
    return is_set and all(isinstance(name, str) for name in row)
