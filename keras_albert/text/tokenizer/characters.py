"""Kinds of characters, and the offsets of pieces in the original text.

A piece includes the whitespace before it; its offsets here do not, so that
`text[start:end]` is the visible word or part of a word.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

# The characters that the vocabulary normalizes to a space: Python's whitespace, and
# characters without width, such as the joiner within an emoji.
BLANKS = frozenset(
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680"
    "\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
    "\u200b\u200c\u200d\u200e\u200f\ufeff"
)

# The letters of scripts without spaces between words, as the content of a character
# class of `re`, used both for masking and for splitting texts into words. Marks within
# a range are matched before.
UNSPACED = (
    "\u0e01-\u0e30\u0e32-\u0e33\u0e40-\u0e46"  # Thai
    "\u0e81-\u0eb0\u0eb2-\u0eb3\u0ebd\u0ec0-\u0ec6\u0edc-\u0edf"  # Lao
    "\u0f00\u0f40-\u0f6c\u0f88-\u0f8c"  # Tibetan
    "\u1000-\u102a\u103f\u1050-\u1055\u105a-\u105d\u1061\u1065-\u1066"  # Burmese
    "\u106e-\u1070\u1075-\u1081\u108e"
    "\ua9e0-\ua9e4\ua9e6-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a\uaa7e-\uaa7f"
    "\u1780-\u17b3\u17d7\u17dc"  # Khmer
    "\u3005-\u3007\u303b\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # kana
    "\U0001aff0-\U0001affe\U0001b000-\U0001b167"
    "\u3105-\u312f\u31a0-\u31bf"  # Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # ideographs
)


def trim_blanks(
    text: str, spans: list[tuple[int, int]]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Move the start of each piece past its leading blanks.

    Spans are in characters; the span of a piece of blanks alone is empty.
    """
    starts = []
    for start, end in spans:
        first = start
        while first < end and text[first] in BLANKS:
            first += 1
        starts.append(first)
    return np.array(starts, np.int32), np.array([end for _, end in spans], np.int32)


def graph_tokens_with_offsets(sentence_piece: Any, inputs: Any) -> tuple[Any, Any, Any]:
    """Tokenize texts in a TensorFlow graph, with offsets as in `trim_blanks`.

    Ids, starts and ends are ragged, or dense for one text.
    """
    # Called in TensorFlow graphs only.
    import tensorflow as tf  # noqa: PLC0415

    with tf.device("cpu"):  # string tensors are on the CPU only
        texts = tf.convert_to_tensor(inputs)
        scalar = texts.shape.rank == 0
        if scalar:
            texts = tf.expand_dims(texts, 0)
        ids, starts, ends = sentence_piece.tokenize_with_offsets(texts)
        starts, ends = _graph_character_offsets(tf, texts, starts, ends)
    return (ids.values, starts.values, ends.values) if scalar else (ids, starts, ends)


def _graph_character_offsets(
    tf: Any, texts: Any, starts: Any, ends: Any
) -> tuple[Any, Any]:
    """Convert tensorflow-text's byte offsets to character offsets without blanks."""
    codes, first_bytes = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    # Offsets into all rows, concatenated, so that one sorted search covers them.
    row_bytes = tf.math.cumsum(
        tf.cast(tf.strings.length(texts), "int64"), exclusive=True
    )
    first_bytes = first_bytes.values + tf.gather(row_bytes, first_bytes.value_rowids())
    row_of_piece = starts.value_rowids()
    base = tf.gather(row_bytes, row_of_piece)
    start = tf.searchsorted(first_bytes, starts.values + base, out_type="int64")
    end = tf.searchsorted(first_bytes, ends.values + base, out_type="int64")
    blanks = tf.constant(sorted(map(ord, BLANKS)), "int32")
    nearest = tf.minimum(tf.searchsorted(blanks, codes.values), len(BLANKS) - 1)
    inked = tf.where(tf.gather(blanks, nearest) != codes.values)[:, 0]
    # The first visible character at or after each start, or the end of the piece if
    # that is before it (the texts may end in blanks).
    inked = tf.concat([inked, [tf.size(codes.values, out_type="int64")]], axis=0)
    start = tf.gather(inked, tf.searchsorted(inked, start))
    start = tf.minimum(start, end)
    row_characters = tf.gather(codes.row_splits, row_of_piece)
    return tuple(
        starts.with_values(tf.cast(position - row_characters, "int32"))
        for position in (start, end)
    )
