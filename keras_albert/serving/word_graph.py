"""Cutting texts into words inside a TensorFlow graph."""

import re
import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_albert.text.word_rows import JOINER, character_kinds

_MARK, _UNSPACED, _LETTER, _FLAG, _SIGN = (1 << bit for bit in range(5))
_KINDS = {
    "mark": _MARK,
    "unspaced": _UNSPACED,
    "letter": _LETTER,
    "flag": _FLAG,
    "sign": _SIGN,
}


class WordTensors(NamedTuple):
    """The words of all texts, one after the other.

    Attributes:
        characters: int32 code points of all texts.
        starts: int64 tensor `(words,)`. Where a word begins among `characters`.
        ends: int64 tensor `(words,)`. Where it ends.
        texts: int64 tensor `(words,)`. Which text it is of.
        bases: int64 tensor `(texts,)`. Where a text begins among `characters`.
    """

    characters: Any
    starts: Any
    ends: Any
    texts: Any
    bases: Any

    def cut(self, starts: Any, ends: Any) -> Any:
        """Give the texts between places among `characters`, a string tensor."""
        codes = tf.gather(self.characters, tf.ragged.range(starts, ends))
        return tf.strings.unicode_encode(codes, "UTF-8")

    def in_text(self, places: Any, texts: Any) -> Any:
        """Turn places among `characters` into int32 places in their texts."""
        return tf.cast(places - tf.gather(self.bases, texts), tf.int32)


def find_words(texts: Any) -> WordTensors:
    """Cut texts into words as `split_words` does.

    A word goes on where a mark follows, a letter behind a letter, the second flag of
    a pair, or a sign behind a joiner behind a sign; marks in between do not count. So
    each character needs to know no more than the last one that is no mark.

    Args:
        texts: string tensor `(texts,)`.

    Returns:
        `WordTensors`.
    """
    codes = tf.strings.unicode_decode(texts, "UTF-8")
    bases, rows, codes = codes.row_starts(), codes.value_rowids(), codes.values
    places = tf.range(tf.size(codes, tf.int64))
    kinds = _kinds_of(codes)
    is_space = kinds == 0
    # What stands before; a text begins as if behind a space.
    is_first = places == tf.gather(bases, rows)
    before = tf.where(is_first, 0, _shift(kinds))
    after_space = before == 0
    is_mark = _has(kinds, _MARK)
    opens = ~is_space & after_space
    is_base = ~is_space & (~is_mark | opens)
    base = _latest(places, is_base)
    base_before = tf.where(after_space, 0, _shift(tf.gather(kinds, base)))
    # The first flag of a run, and every second one from there on.
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


def _kinds_of(codes: Any) -> Any:
    """Look up what kinds each character is of; a space is of none."""
    changes, kinds = _kind_table()
    number = tf.searchsorted(changes, codes, side="right") - 1
    return tf.gather(kinds, number)


@cache
def _kind_table() -> tuple[Any, Any]:
    """List where kinds change, in the order of code points, and what they become."""
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
    """Give each place what stands before it."""
    return tf.concat([tf.zeros([1], values.dtype), values], axis=0)[:-1]


def _latest(places: Any, is_one: Any) -> Any:
    """Give each place the last place up to it that is one; 0 before the first."""
    number = tf.cumsum(tf.cast(is_one, tf.int64))
    ones = tf.concat([tf.zeros([1], tf.int64), places[is_one]], axis=0)
    return tf.gather(ones, number)
