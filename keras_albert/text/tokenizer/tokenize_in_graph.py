"""Tokenization inside a TensorFlow graph: for `tf.data` and `tf.function`."""

import sys
from typing import Any

from keras_albert.text.reading import check_graph_text


def is_in_graph() -> bool:
    """Return whether a TensorFlow graph is being traced."""
    tf = sys.modules.get("tensorflow")
    return tf is not None and not tf.executing_eagerly()


def tokenize_in_graph(
    sentence_piece: Any, texts: Any, length: int | None, padding: int
) -> Any:
    """Tokenize texts in a TensorFlow graph.

    Ids are ragged, or dense for one text or with `length`; a text that is not UTF-8
    raises an error that names its row.
    """
    import tensorflow as tf  # noqa: PLC0415  (called in TensorFlow graphs only)

    with tf.device("cpu"):  # string tensors are on the CPU only
        texts = tf.convert_to_tensor(texts, tf.string)
        is_one = texts.shape.rank == 0
        rows = check_graph_text(tf.expand_dims(texts, 0) if is_one else texts)
        ids = sentence_piece.tokenize(rows)
        if length is not None:
            ids = ids.to_tensor(padding, shape=(None, length))
    return ids[0] if is_one else ids


def detokenize_in_graph(sentence_piece: Any, ids: Any) -> Any:
    """Convert ids to texts in a TensorFlow graph."""
    import tensorflow as tf  # noqa: PLC0415  (called in TensorFlow graphs only)

    if not tf.is_tensor(ids):
        ids = tf.ragged.constant(ids)
    ids = tf.cast(ids, tf.int32)
    if ids.shape.rank == 0:
        ids = tf.expand_dims(ids, 0)
    return sentence_piece.detokenize(ids)
