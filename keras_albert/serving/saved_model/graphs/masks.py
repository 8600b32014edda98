"""Tokenizing texts with `[MASK]` in a TensorFlow graph."""

import sys
from typing import Any

import numpy as np
import tensorflow as tf

from keras_albert.text.masked_lm.tokenize_masks import without_space

_SPACES = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))


def tokenize_masks_in_graph(sentence_piece: Any, tokenizer: Any, texts: Any) -> Any:
    """Implement `tokenize_masks` with TensorFlow operations.

    Args:
        sentence_piece: A `tensorflow_text.SentencepieceTokenizer`.
        tokenizer: The `AlbertTokenizer` of the same vocabulary.
        texts: string tensor `(texts,)`.

    Returns:
        Ragged int32 tensor `(texts, tokens)`.
    """
    mask = tokenizer.mask_token
    # An extra mask, removed below, because an empty string splits into no parts.
    parts = tf.strings.split(tf.strings.join([texts, mask]), mask)[:, :-1]
    counts, rows = parts.row_lengths(), parts.value_rowids()
    is_behind = tf.range(tf.size(rows, tf.int64)) != tf.gather(parts.row_starts(), rows)
    parts = parts.values
    ids = sentence_piece.tokenize(parts)
    # A part that begins without a space continues the word of the mask.
    goes_on = is_behind & ~tf.strings.regex_full_match(parts, f"(?s)[{_SPACES}].*")
    is_first = tf.range(tf.size(ids.values, tf.int64)) == tf.gather(
        ids.row_starts(), ids.value_rowids()
    )
    inner = tf.gather(tf.constant(_inner_pieces(tokenizer)), ids.values)
    is_inner = is_first & tf.gather(goes_on, ids.value_rowids())
    ids = ids.with_values(tf.where(is_inner, inner, ids.values))
    ids = tf.ragged.boolean_mask(ids, ids >= 0)
    masks = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.math.count_nonzero(is_behind)], tokenizer.mask_token_id),
        tf.cast(is_behind, tf.int64),
    )
    ids = tf.concat([masks, ids], axis=1)
    # From parts to texts.
    return tf.RaggedTensor.from_row_lengths(ids, counts).merge_dims(1, 2)


def _inner_pieces(tokenizer: Any) -> Any:
    """Map each id to that of the same piece without a leading space, or -1."""
    size = tokenizer.vocabulary_size()
    rows = [np.array([token], np.int32) for token in range(size)]
    inner = [without_space(tokenizer, "x", row) for row in rows]
    return np.array([row[0] if len(row) else -1 for row in inner], np.int32)
