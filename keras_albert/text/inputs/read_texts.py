"""Reads texts from lists, arrays, Series and tensors into a list of `str`."""

import math
from typing import Any

import numpy as np


def to_text_rows(inputs: Any, name: str = "texts") -> tuple[list[str], bool]:
    r"""Read one text or many texts into a list of `str`.

    TensorFlow is not imported: its string tensors are read by `.numpy()`. Also return
    whether there was a batch axis.
    """
    rows: list[Any]
    if isinstance(inputs, str | bytes):
        rows, batched = [inputs], False
    elif isinstance(inputs, list | tuple):
        rows, batched = list(inputs), True
    elif is_column(inputs):
        rows, batched = plain_column(inputs), True
    else:
        rows, batched = _array_rows(inputs, name)
    # Valid input, the common case, costs only two passes of C code.
    if set(map(type, rows)) - {str}:
        rows = [_to_str(row, index, name) for index, row in enumerate(rows)]
    _refuse_surrogates(rows, name)
    return rows, batched


def is_column(values: Any) -> bool:
    """Return whether values are a column of Arrow, polars or `datasets`."""
    if isinstance(values, list | np.ndarray) or hasattr(values, "column_names"):
        return False
    module, name = type(values).__module__, type(values).__name__
    return (
        hasattr(values, "to_pylist")
        or (module.startswith("polars.") and hasattr(values, "to_list"))
        or (module.startswith("datasets.") and name.endswith("Column"))
    )


def plain_column(values: Any) -> Any:
    """Return such a column as a list, and other values unchanged."""
    if not is_column(values):
        return values
    for method in ("to_pylist", "to_list"):
        if hasattr(values, method):
            rows: list[Any] = getattr(values, method)()
            return rows
    return values[:] if hasattr(values, "__len__") else list(values)


def _array_rows(inputs: Any, name: str) -> tuple[list[Any], bool]:
    """Read an array, a Series or a tensor into Python objects."""
    if hasattr(inputs, "numpy") and callable(inputs.numpy):
        inputs = inputs.numpy()
        if isinstance(inputs, str | bytes):  # a scalar string tensor
            return [inputs], False
    if not hasattr(inputs, "__array__"):
        raise TypeError(
            f"`{name}` must hold texts: a str, a list of str, a NumPy array, a "
            f"pandas Series or a string tensor. Received: {type(inputs).__name__}. "
            "Pass `list(...)` of it, or pick out the column that holds the texts."
        )
    array = np.asarray(inputs)
    if array.ndim > 1:
        raise ValueError(
            f"`{name}` must be one text or one row of texts, rank 0 or 1. "
            f"Received: an array of shape {array.shape}. Pass one column at a "
            "time, or flatten it with `.reshape(-1)`."
        )
    values = array.tolist()
    return (values, True) if array.ndim else ([values], False)


def _to_str(row: Any, index: int, name: str) -> str:
    """Convert one row to a plain `str`, or raise an error that names the row."""
    if isinstance(row, str):
        return str(row)
    if hasattr(row, "numpy") and callable(row.numpy):  # a list of scalar tensors
        row = row.numpy()
    if isinstance(row, bytes):
        try:
            return row.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"row {index} of {name} is not UTF-8: byte 0x{row[error.start]:02x} "
                f"at offset {error.start} ({error.reason}). Decode it with the "
                'encoding it was written in, as in `row.decode("latin-1")`, or '
                'drop what cannot be read with `row.decode(errors="replace")`.'
            ) from None
    if _is_missing(row):
        raise ValueError(
            f"row {index} of {name} is {row}; a text is needed in every row. Drop "
            'the row, or fill it with an empty string (pandas: `.fillna("")`).'
        )
    if isinstance(row, list | tuple | dict | set | np.ndarray):
        raise ValueError(
            f"row {index} of {name} is a {type(row).__name__}, not a text; `{name}` "
            "may be one text or a flat list of texts. Join its words with "
            '`" ".join(words)`, or pass each column as an argument of its own.'
        )
    raise ValueError(
        f"row {index} of {name} is {row!r} ({type(row).__name__}), not a text. "
        "Convert it with `str(row)` if its digits are the text you mean."
    )


def _is_missing(row: Any) -> bool:
    """Return whether a row is `None`, NaN or one of pandas' missing values."""
    if row is None or type(row).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(row, float | np.floating) and math.isnan(row)


def _refuse_surrogates(rows: list[str], name: str) -> None:
    """Raise if a row contains lone surrogates, which UTF-8 cannot encode."""
    for index, row in enumerate(rows):
        if row.isascii():
            continue
        try:
            row.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"row {index} of {name} has a lone surrogate, "
                f"U+{ord(row[error.start]):04X}, at character {error.start}: half of "
                "a character, which UTF-8 cannot encode. It mostly comes from "
                "cutting UTF-16 or JSON escapes; read the source again, or replace "
                'it with `row.encode("utf-8", "replace").decode()`.'
            ) from None
