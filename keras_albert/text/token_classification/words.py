"""The words of texts and their character offsets."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from keras_albert.text.inputs.read_texts import plain_column, to_text_rows
from keras_albert.text.tokenizer.characters import UNSPACED
from keras_albert.types import Int64Array

_FLAGS = "\U0001f1e6-\U0001f1ff"
# Zero-width joiner: combines two symbols into one, as in emoji.
JOINER = "\u200d"


class WordRow(NamedTuple):
    """One text and the offsets of its words.

    `starts` and `ends` are characters of `text`, which was passed as a string if
    `is_raw`.
    """

    text: str
    starts: Int64Array
    ends: Int64Array
    is_raw: bool

    @property
    def words(self) -> list[str]:
        """The words."""
        spans = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [self.text[start:end] for start, end in spans]


def word_columns(x: Any) -> tuple[tuple[list[Any], ...], bool]:
    """Read raw texts or lists of words.

    A string is a text, and a tuple of strings is the words of one text; a list of
    strings is a batch of texts, and a list of lists (or tuples) is the words of a
    batch.

    Args:
        x: A text, the words of one text, or a batch of either: lists, NumPy arrays,
            pandas columns, or string tensors, also ragged ones.

    Returns:
        One column, a list of `str` or of lists of `str`; and whether `x` was a batch.

    Raises:
        TypeError: If `x` is of another type.
        ValueError: If a row or a word is not a text; the message names it.

    Example:
        >>> word_columns([["Ada", "wrote"]])
        (([['Ada', 'wrote']],), True)
        >>> word_columns("Ada wrote")
        ((['Ada wrote'],), False)
    """
    if isinstance(x, tuple):
        if any(not isinstance(word, str | bytes) for word in x):
            msg = (
                "A tuple is the words of one text. Received a tuple that holds "
                f"{next(type(w).__name__ for w in x if not isinstance(w, str | bytes))}"
                ". Pass many texts as a list."
            )
            raise TypeError(msg)
        return ([_read_words(x, 0)],), False
    x = x.to_list() if hasattr(x, "to_list") else plain_column(x)
    if isinstance(x, np.ndarray) and x.ndim:
        x = list(x)
    rows = x if isinstance(x, list) else []
    is_words = [isinstance(row, list | tuple | np.ndarray) for row in rows]
    if not any(is_words):
        texts, batched = to_text_rows(x)
        return (texts,), batched
    if not all(is_words):
        row = is_words.index(not is_words[0])
        kinds = ("a list of words", "a text")
        here, there = kinds if is_words[row] else kinds[::-1]
        msg = (
            f"Row {row} is {here}, and row 0 is {there}. Pass raw texts or lists of "
            "words, not both at once."
        )
        raise ValueError(msg)
    return ([_read_words(words, row) for row, words in enumerate(x)],), True


def read_word_rows(column: Iterable[Any]) -> list[WordRow]:
    """Return a `WordRow` for each text or list of words of `word_columns`."""
    return [
        split_words(row) if isinstance(row, str) else join_words(row) for row in column
    ]


def join_words(words: list[str]) -> WordRow:
    """Join words into a text with spaces."""
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    starts = np.cumsum(lengths + 1) - lengths - 1
    return WordRow(" ".join(words), starts, starts + lengths, False)


def split_words(text: str) -> WordRow:
    """Split a text into words: runs of letters and digits, and single symbols.

    Marks and joiners belong to the previous character. A character of a script
    without spaces, such as an ideograph, is a word.
    """
    spans = [match.span() for match in _word_pattern().finditer(text)]
    bounds = np.array(spans, np.int64).reshape(-1, 2)
    return WordRow(text, bounds[:, 0], bounds[:, 1], True)


@cache
def character_kinds() -> dict[str, str]:
    """Return the kinds of characters in words, as character classes of `re`.

    "mark" belongs to the previous character, each "unspaced" one is a word, a "letter"
    includes digits, two "flag"s are one symbol; the rest is "sign".
    """
    # Computed, because Python's `re` has no class of marks.
    marks = "".join(
        re.escape(chr(code))
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me", "Cf")
    )
    return {
        "mark": f"{marks}\U0001f3fb-\U0001f3ff",  # and skin-tone modifiers
        "unspaced": UNSPACED,
        "letter": rf"^\W{UNSPACED}",
        "flag": _FLAGS,
        "sign": rf"^\w\s{_FLAGS}",
    }


@cache
def _word_pattern() -> re.Pattern[str]:
    kinds = {name: f"[{kind}]" for name, kind in character_kinds().items()}
    marks, sign = f"{kinds['mark']}*", kinds["sign"]
    return re.compile(
        rf"{kinds['unspaced']}{marks}"
        rf"|(?:{kinds['letter']}{marks})+"
        rf"|{kinds['flag']}{{1,2}}{marks}"
        rf"|{sign}{marks}(?:(?<={JOINER}){sign}{marks})*"
    )


def _read_words(words: Any, row: int) -> list[str]:
    read, _ = to_text_rows(words, name=f"the words of row {row}")
    return read
