"""Tokenizing texts in a TensorFlow graph in linear time."""

from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from keras_albert.text.tokenizer.vocabulary_file import (
    SPECIAL_TOKENS,
    graph_vocabulary,
    parse_vocabulary,
)

_UNKNOWN = SPECIAL_TOKENS.index("<unk>")


class GraphTokenizer(tf_text.SentencepieceTokenizer):
    """tensorflow-text's tokenizer, with Python's ids and in linear time.

    See `graph_vocabulary`.
    """

    def __init__(self, proto: bytes, out_type: Any = "int32") -> None:
        # If ids are strings, an unknown piece is its text.
        self._merges = out_type != "string"
        super().__init__(graph_vocabulary(proto, with_bytes=self._merges), out_type)
        self._size = len(parse_vocabulary(proto).pieces)

    def tokenize(self, texts: Any) -> Any:
        """Split texts of any shape into ids; see `tf_text.SentencepieceTokenizer`."""
        ids = super().tokenize(texts)
        # Texts of another rank than 1 are tokenized by a call with rank 1.
        return self._merge(ids)[0] if self._merges and ids.shape.rank == 2 else ids

    def tokenize_with_offsets(self, texts: Any) -> tuple[Any, Any, Any]:
        """Split texts into ids, and return where each begins and ends, in bytes."""
        ids, starts, ends = super().tokenize_with_offsets(texts)
        if not self._merges or ids.shape.rank != 2:
            return ids, starts, ends
        ids, is_first, is_last = self._merge(ids)
        starts = tf.ragged.boolean_mask(starts, is_first)
        return ids, starts, tf.ragged.boolean_mask(ends, is_last)

    def _merge(self, ids: Any) -> tuple[Any, Any, Any]:
        """Replace each run of bytes by `<unk>`; mark its first and last byte."""
        is_byte, rows = ids.values >= self._size, ids.value_rowids()
        joins = is_byte[1:] & is_byte[:-1] & (rows[1:] == rows[:-1])
        count = tf.size(is_byte)
        is_first, is_last = (
            ids.with_values(~tf.concat(parts, axis=0)[:count])
            for parts in ([[False], joins], [joins, [False]])
        )
        ids = ids.with_values(tf.where(is_byte, _UNKNOWN, ids.values))
        return tf.ragged.boolean_mask(ids, is_first), is_first, is_last
