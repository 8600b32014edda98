"""Texts as words: as the caller cut them, or cut here, with their characters."""

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from keras_albert.text.inputs.read_texts import to_text_rows
from keras_albert.text.tokenizer.unspaced_scripts import UNSPACED
from keras_albert.types import Int64Array

_FLAGS = "\U0001f1e6-\U0001f1ff"
# Makes one sign of two.
JOINER = "\u200d"


class WordRow(NamedTuple):
    """One text and where its words stand.

    Args:
        text: string. The text as given, or the words with a space between them.
        starts: int64 array `(words,)`. The first character of each word.
        ends: int64 array `(words,)`. The character behind it.
        is_raw: bool. Whether the words were cut here.
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
    """Tell lists of words from raw texts.

    A string is a text and a tuple of strings the words of one text; a list of strings
    is many texts, and a list of lists (or of tuples) the words of many.

    Args:
        x: A text, the words of one, or many of either: lists, NumPy arrays, pandas
            columns, string tensors, also ragged ones.

    Returns:
        One column: a list of `str`, or of lists of `str`; and whether it was a batch.

    Raises:
        TypeError: If something else is given.
        ValueError: If a row or a word is no text; the message names it.

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
    if hasattr(x, "to_list"):  # a ragged tensor, a pandas column
        x = x.to_list()
    elif isinstance(x, np.ndarray) and x.ndim:
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
    """Find the words of texts, or put given words together.

    Args:
        column: What `word_columns` gave.

    Returns:
        One `WordRow` a text.
    """
    return [
        split_words(row) if isinstance(row, str) else join_words(row) for row in column
    ]


def join_words(words: list[str]) -> WordRow:
    """Put words together with a space between each two.

    Args:
        words: The words; one may be empty, or hold a space.

    Returns:
        The text and its words, where they now stand.

    Example:
        >>> join_words(["Ada", "wrote"]).starts.tolist()
        [0, 4]
    """
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    starts = np.cumsum(lengths + 1) - lengths - 1
    return WordRow(" ".join(words), starts, starts + lengths, False)


def split_words(text: str) -> WordRow:
    """Cut a text into words: letters and digits together, each other sign alone.

    Marks and joiners stay with what they stand on, and a character of a script
    without spaces, such as an ideograph, is a word.

    Args:
        text: string. The text.

    Returns:
        The text and its words; only whitespace belongs to none.

    Example:
        >>> split_words("Isn't Ada in São Paulo?").words
        ['Isn', "'", 't', 'Ada', 'in', 'São', 'Paulo', '?']
    """
    spans = [match.span() for match in _word_pattern().finditer(text)]
    bounds = np.array(spans, np.int64).reshape(-1, 2)
    return WordRow(text, bounds[:, 0], bounds[:, 1], True)


@cache
def character_kinds() -> dict[str, str]:
    """Give the kinds of characters that words are made of, as `re` writes classes.

    Returns:
        The insides of `[...]`: "mark", which stays with what it stands on; "unspaced",
        each a word; "letter", digits among them; "flag", two of which are one sign;
        and "sign". Of what belongs to several, the first of the last four counts.
    """
    # Made when it is needed: Python's `re` knows no class of marks.
    marks = "".join(
        re.escape(chr(code))
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me", "Cf")
    )
    return {
        "mark": f"{marks}\U0001f3fb-\U0001f3ff",  # and the colours of skin
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
