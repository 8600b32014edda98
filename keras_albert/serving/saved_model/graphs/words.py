"""Splitting texts into words in a TensorFlow graph."""

import re
import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_albert.text.tasks.token_classification import JOINER, character_kinds

_MARK, _UNSPACED, _LETTER, _FLAG, _SIGN = (1 << bit for bit in range(5))
_KINDS = {
    "mark": _MARK,
    "unspaced": _UNSPACED,
    "letter": _LETTER,
    "flag": _FLAG,
    "sign": _SIGN,
}


class WordTensors(NamedTuple):
    """The concatenated words of all texts.

    Attributes:
        characters: int32 code points of all texts.
        starts: int64 tensor `(words,)`. The start of each word in `characters`.
        ends: int64 tensor `(words,)`. The end of each word.
        texts: int64 tensor `(words,)`. The text of each word.
        bases: int64 tensor `(texts,)`. The start of each text in `characters`.
    """

    characters: Any
    starts: Any
    ends: Any
    texts: Any
    bases: Any

    def cut(self, starts: Any, ends: Any) -> Any:
        """Return the strings between positions in `characters`, a string tensor."""
        codes = tf.gather(self.characters, tf.ragged.range(starts, ends))
        return tf.strings.unicode_encode(codes, "UTF-8")

    def in_text(self, places: Any, texts: Any) -> Any:
        """Convert positions in `characters` to int32 positions in their texts."""
        return tf.cast(places - tf.gather(self.bases, texts), tf.int32)


def find_words(texts: Any) -> WordTensors:
    """Split texts into words as `split_words` does.

    A word continues with a mark, a letter after a letter, the second flag of a pair, or
    a sign after a joiner after a sign; marks in between are ignored. So each character
    depends only on the last one before it that is not a mark.
    """
    codes = tf.strings.unicode_decode(texts, "UTF-8")
    bases, rows, codes = codes.row_starts(), codes.value_rowids(), codes.values
    places = tf.range(tf.size(codes, tf.int64))
    # A space has no kind.
    changes, table = _kind_table()
    number = tf.searchsorted(changes, codes, side="right") - 1
    kinds = tf.gather(table, number)
    is_space = kinds == 0
    # The kinds of the previous character; a text begins as if after a space.
    is_first = places == tf.gather(bases, rows)
    before = tf.where(is_first, 0, _shift(kinds))
    after_space = before == 0
    is_mark = _has(kinds, _MARK)
    opens = ~is_space & after_space
    is_base = ~is_space & (~is_mark | opens)
    base = _latest(places, is_base)
    base_before = tf.where(after_space, 0, _shift(tf.gather(kinds, base)))
    # From the first flag of a run, every second one.
    is_flag = _has(kinds, _FLAG)
    run = _latest(places, is_flag & ~_has(before, _FLAG))
    is_second = is_flag & _has(before, _FLAG) & ((places - run) % 2 == 1)
    is_letter = _has(kinds, _LETTER) & _has(base_before, _LETTER)
    of_sign = _has(base_before, _SIGN) & ~_has(base_before, _UNSPACED)
    is_joined = _has(kinds, _SIGN) & of_sign & (_shift(codes) == ord(JOINER))
    goes_on = ~opens & (is_mark | is_letter | is_second | is_joined)
    is_start = ~is_space & ~goes_on
    breaks = tf.concat([(is_space | is_start)[1:], tf.fill([1], True)], axis=0)
    starts = tf.where(is_start)[:, 0]
    ends = tf.where(~is_space & breaks[: tf.size(codes)])[:, 0] + 1
    return WordTensors(codes, starts, ends, tf.gather(rows, starts), bases)


@cache
def _kind_table() -> tuple[Any, Any]:
    """Return the code points at which kinds change, and the kinds from there."""
    table = np.zeros(sys.maxunicode + 1, np.int32)
    characters = "".join(map(chr, range(sys.maxunicode + 1)))
    for name, kind in character_kinds().items():
        for match in re.finditer(f"[{kind}]+", characters):
            table[match.start() : match.end()] |= _KINDS[name]
    changes = np.flatnonzero(np.diff(table, prepend=-1)).astype(np.int32)
    return changes, table[changes]


def _has(kinds: Any, kind: int) -> Any:
    return tf.bitwise.bitwise_and(kinds, kind) != 0


def _shift(values: Any) -> Any:
    """Return the previous value at each position."""
    return tf.concat([tf.zeros([1], values.dtype), values], axis=0)[:-1]


def _latest(places: Any, is_one: Any) -> Any:
    """Return the last marked position up to each position; 0 before the first."""
    number = tf.cumsum(tf.cast(is_one, tf.int64))
    ones = tf.concat([tf.zeros([1], tf.int64), places[is_one]], axis=0)
    return tf.gather(ones, number)
