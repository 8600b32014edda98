"""Reads texts or pairs of texts from lists, arrays, data frames and tensors."""

import math
import sys
from typing import Any, NamedTuple

import numpy as np

MAX_COLUMNS = 2

# Names for error messages, by the number of columns.
COLUMN_NAMES = {1: ("texts",), 2: ("first texts", "second texts")}


class TextBatch(NamedTuple):
    """Columns of equal lengths that were read and checked, of a batch or an example."""

    columns: tuple[list[Any], ...]
    batched: bool


def text_columns(
    texts: Any, max_columns: int | None = MAX_COLUMNS
) -> tuple[tuple[list[str], ...], bool]:
    """Read texts or pairs into one or two columns; return if they were a batch."""
    # As in KerasHub, a tuple is one example, and a list or an array is a batch: `("a",
    # "b")` is one pair, `(["a", "c"], ["b", "d"])` and `[("a", "b"), ("c", "d")]` are
    # two.
    columns = split_columns(texts)
    if max_columns is not None and len(columns) > max_columns:
        raise ValueError(
            f"An ALBERT example must be one text or a pair. Received {len(columns)} "
            "texts for each example. Join some of them into one, or pass `list(x)` if "
            "the elements of a tuple are examples."
        )
    names = COLUMN_NAMES.get(len(columns)) or [
        f"texts of column {number}" for number in range(len(columns))
    ]
    read = [to_text_rows(c, name=n) for c, n in zip(columns, names, strict=True)]
    if len({(len(rows), batched) for rows, batched in read}) > 1:
        sizes = (
            str(len(rows)) if batched else "a single text" for rows, batched in read
        )
        counts = " and ".join(sizes)
        raise ValueError(
            f"A pair needs as many first texts as second ones. Received: {counts}. "
            "Pass lists of equal length, or a list of tuples."
        )
    return tuple(rows for rows, _ in read), read[0][1]


def split_columns(texts: Any) -> tuple[Any, ...]:
    """Return the columns of a tuple, a list of tuples, or an array of rank 2."""
    if hasattr(texts, "columns"):
        raise TypeError(
            "A table is read by the names of its columns. Pass one of them, such as "
            "`table['text']`, or a pair `(table['first'], table['second'])`."
        )
    if isinstance(texts, tuple):
        return texts or ((),)
    if isinstance(texts, list):
        if texts and isinstance(texts[0], tuple):
            width = len(texts[0])
            for row, pair in enumerate(texts):
                if not isinstance(pair, tuple) or len(pair) != width:
                    raise ValueError(
                        f"Row {row} of the texts is {pair!r}, but row 0 is a tuple of "
                        f"{width} texts. Give each row as many texts."
                    )
            return tuple([pair[column] for pair in texts] for column in range(width))
        return (texts,)
    if hasattr(texts, "shape") and len(texts.shape) == 2:
        table = texts.numpy() if hasattr(texts, "numpy") else np.asarray(texts)
        return tuple(table[:, column] for column in range(table.shape[1]))
    return (texts,)


def is_graph_text(x: Any) -> bool:
    """Return whether `x` contains symbolic tensors of a TensorFlow graph."""
    tf: Any = sys.modules.get("tensorflow")
    if tf is None:
        return False
    leaves = x if isinstance(x, tuple) else (x,)
    return any(tf.is_tensor(leaf) and tf.is_symbolic_tensor(leaf) for leaf in leaves)


def is_in_graph() -> bool:
    """Return whether a TensorFlow graph is being traced."""
    tf = sys.modules.get("tensorflow")
    return tf is not None and not tf.executing_eagerly()


def are_texts(x: Any) -> bool:
    """Return whether `x` contains texts rather than labels, by its first element."""
    while isinstance(x, list | tuple) and x:
        x = x[0]
    if isinstance(x, str | bytes):
        return True
    dtype = getattr(x, "dtype", None)
    if getattr(dtype, "kind", None) == "O":
        flat = np.asarray(x).reshape(-1)
        return bool(len(flat)) and isinstance(flat[0], str | bytes)
    # TensorFlow's and pandas' string types have no NumPy kind; their names tell.
    return getattr(dtype, "kind", None) in ("U", "S") or "str" in str(dtype)


def to_text_rows(inputs: Any, name: str = "texts") -> tuple[list[str], bool]:
    """Read one text or many, also string tensors; return whether there were many."""
    rows, batched = [inputs], False
    if isinstance(inputs, list | tuple):
        rows, batched = list(inputs), True
    elif is_column(inputs):
        rows, batched = plain_column(inputs), True
    elif not isinstance(inputs, str | bytes):
        rows, batched = _array_rows(inputs, name)
    # Valid input, the common case, costs only two passes of C code.
    if set(map(type, rows)) - {str}:
        rows = [_to_str(row, index, name) for index, row in enumerate(rows)]
    _refuse_surrogates(rows, name)
    return rows, batched


def is_column(values: Any) -> bool:
    """Return whether values are a column of pandas, polars, Arrow or `datasets`."""
    if isinstance(values, list | np.ndarray) or hasattr(values, "column_names"):
        return False
    kind = type(values)
    is_of_datasets = kind.__module__.startswith("datasets.")
    return (
        hasattr(kind, "to_pylist")
        or hasattr(kind, "to_list")
        or (is_of_datasets and kind.__name__.endswith("Column"))
    )


def plain_column(values: Any) -> Any:
    """Return a column of these as a list, PyTorch's tensor as an array."""
    if hasattr(values, "detach"):
        return values.detach().cpu().numpy()
    if not is_column(values):
        return values
    for method in ("to_pylist", "to_list"):
        if hasattr(values, method):
            return getattr(values, method)()
    return list(values)


def _array_rows(inputs: Any, name: str) -> tuple[list[Any], bool]:
    """Read an array, a Series or a tensor into Python objects."""
    if hasattr(inputs, "numpy") and callable(inputs.numpy):
        inputs = inputs.numpy()
        if isinstance(inputs, str | bytes):  # a scalar string tensor
            return [inputs], False
    if not hasattr(inputs, "__array__"):
        raise TypeError(
            f"`{name}` must be texts: a str, a list or an array of str, a column or "
            f"a string tensor. Received: {type(inputs).__name__}. Pass `list(...)` of "
            "it, or the column of texts."
        )
    array = np.asarray(inputs)
    if array.ndim > 1:
        raise ValueError(
            f"`{name}` must be one text or one row of texts. Received: an array of "
            f"shape {array.shape}. Pass one column at a time."
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
                'encoding it was written in, as in `row.decode("latin-1")`.'
            ) from None
    is_nan = isinstance(row, float | np.floating) and math.isnan(row)
    # pandas has its own missing values.
    if row is None or is_nan or type(row).__name__ in {"NAType", "NaTType"}:
        raise ValueError(
            f"row {index} of {name} is {row}; a text is needed in every row. Drop "
            'the row, or fill it with an empty string (pandas: `.fillna("")`).'
        )
    remedy = "Convert it with `str(row)` if its digits are the text you mean."
    if isinstance(row, list | tuple | dict | set | np.ndarray):
        remedy = 'Join its words with `" ".join(words)`; pairs are `(first, second)`.'
    raise ValueError(
        f"row {index} of {name} is {row!r:.80} ({type(row).__name__}), not a text. "
        + remedy
    )


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
                "a character. Read the source again, or replace it with "
                '`row.encode("utf-8", "replace").decode()`.'
            ) from None
