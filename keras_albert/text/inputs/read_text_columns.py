"""Reads texts or pairs of texts from lists, arrays, data frames and tensors."""

import sys
from typing import Any, NamedTuple

import numpy as np

from keras_albert.text.inputs.read_texts import to_text_rows
from keras_albert.types import Tensor

MAX_COLUMNS = 2

# Names for error messages, by the number of columns.
COLUMN_NAMES = {1: ("texts",), 2: ("first texts", "second texts")}

# All code points but surrogates, as in Python. RE2 is lenient if the range includes
# surrogates.
_UTF8 = r"[\x{0}-\x{D7FF}\x{E000}-\x{10FFFF}]*"


class TextColumns(NamedTuple):
    """Input that was read and checked, so that it is not read again.

    `columns` has one list for each text of an example, of equal lengths; `batched` is
    `False` for one example.
    """

    columns: tuple[list[Any], ...]
    batched: bool


def text_columns(texts: Any) -> tuple[tuple[list[str], ...], bool]:
    """Read texts, or pairs of texts, into one or two columns.

    As in KerasHub, the elements of a tuple belong to the same example, and a list or
    an array is a batch: `("a", "b")` is one pair, `(["a", "c"], ["b", "d"])` and
    `[("a", "b"), ("c", "d")]` are two pairs, and `["a", "b"]` is two single texts.

    Args:
        texts: A text; a list, a NumPy array, a pandas Series or a string tensor of
            texts; a tuple of two of these; a list of pairs; or an array or a pandas
            DataFrame `(batch, 2)`.

    Returns:
        One or two lists of `str` of equal length, and whether `texts` was a batch.

    Raises:
        TypeError: If `texts` is of another type.
        ValueError: If a row is not a text, or the two columns differ in length.

    Example:
        >>> text_columns(("a", "b"))
        ((['a'], ['b']), False)
        >>> text_columns([("a", "b"), ("c", "d")])
        ((['a', 'c'], ['b', 'd']), True)
    """
    columns = _split_columns(texts)
    if len(columns) > MAX_COLUMNS:
        msg = (
            f"An ALBERT example is one text or a pair. Received {len(columns)} texts "
            "for each example. Join some of them into one, or pass `list(x)` if the "
            "elements of a tuple are examples."
        )
        raise ValueError(msg)
    names = COLUMN_NAMES[len(columns)]
    read = [to_text_rows(c, name=n) for c, n in zip(columns, names, strict=True)]
    if len({(len(rows), batched) for rows, batched in read}) > 1:
        counts = " and ".join(
            f"{len(rows)}" if batched else "a single text" for rows, batched in read
        )
        msg = (
            f"A pair needs as many first texts as second ones. Received: {counts}. "
            "Pass two lists of equal length, or a list of pairs."
        )
        raise ValueError(msg)
    return tuple(rows for rows, _ in read), read[0][1]


def _split_columns(texts: Any) -> tuple[Any, ...]:
    if isinstance(texts, tuple):
        return texts or ((),)
    if isinstance(texts, list):
        if texts and isinstance(texts[0], tuple):
            width = len(texts[0])
            for row, pair in enumerate(texts):
                if not isinstance(pair, tuple) or len(pair) != width:
                    msg = (
                        f"Row {row} of the texts is {pair!r}, where row 0 is a tuple "
                        f"of {width} texts. Give each row as many texts."
                    )
                    raise ValueError(msg)
            return tuple([pair[column] for pair in texts] for column in range(width))
        return (texts,)
    if hasattr(texts, "shape") and len(texts.shape) == 2:
        table = texts.numpy() if hasattr(texts, "numpy") else np.asarray(texts)
        return tuple(table[:, column] for column in range(table.shape[1]))
    return (texts,)


def is_graph_text(x: Any) -> bool:
    """Return whether `x` contains symbolic tensors of a TensorFlow graph."""
    if "tensorflow" not in sys.modules:
        return False
    import tensorflow as tf  # noqa: PLC0415  (already imported, see above)

    leaves = x if isinstance(x, tuple) else (x,)
    return any(tf.is_tensor(leaf) and tf.is_symbolic_tensor(leaf) for leaf in leaves)


def check_graph_text(texts: Tensor, name: str = "texts") -> Tensor:
    """Assert inside a graph that texts are UTF-8, as `text_columns` does in Python.

    Use the result instead of `texts`: otherwise the check is not executed.
    """
    import tensorflow as tf  # noqa: PLC0415  (needed in graphs only)

    texts = tf.convert_to_tensor(texts, tf.string)
    is_text = tf.strings.regex_full_match(texts, _UTF8)
    # One more, since `argmin` refuses an empty batch.
    flat = tf.reshape(tf.cast(is_text, tf.int32), [-1])
    row = tf.argmin(tf.concat([flat, [1]], axis=0))
    message = tf.strings.join(
        [
            "row ",
            tf.strings.as_string(row),
            f" of {name} is not UTF-8. Decode it with the encoding it was written in, "
            'as in `tf.strings.unicode_transcode(texts, "LATIN1", "UTF-8")`; with '
            '"UTF-8" for both, invalid bytes are replaced.',
        ]
    )
    check = tf.debugging.Assert(tf.reduce_all(is_text), [message])
    # Makes later operations wait for the check.
    with tf.control_dependencies([check]):
        return tf.identity(texts)


def holds_text(x: Any) -> bool:
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
