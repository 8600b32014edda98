"""Finds the starts of words in rows of token ids."""

import re
import unicodedata
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.text.tokenizer.characters import UNSPACED
from keras_albert.types import IntArray

_LETTERS = re.compile(f"[{UNSPACED}]")

# Part of a word, as in don't and l'eau.
_APOSTROPHES = "'\u2019"


class WordStarts:
    """Finds the starts of words with lookup tables over the vocabulary.

    A piece begins a word if

    - it begins with U+2581, the symbol for a space, or is the first of its segment;
    - its first character, or the last of the previous piece, is punctuation or a
      symbol: "-" and "known" in "well-known" are separate words. An apostrophe
      continues a word;
    - its first character, or the last of the previous piece, belongs to a script
      without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese, Tibetan): each
      piece is a word, since otherwise a whole sentence would be one.

    All other pieces continue a word, letters of any script and digits alike. A single
    U+2581 belongs to the next piece, a combining mark to the previous one.

    In a WordPiece vocabulary, every piece without `##` begins a word, as in BERT.
    """

    def __init__(self, tokenizer: Any) -> None:
        vocabulary = tokenizer.vocabulary
        texts = vocabulary.texts
        self._is_special = np.zeros(len(texts), bool)
        self._is_special[tokenizer.special_token_ids] = True
        self._opens = vocabulary.begins_word
        if vocabulary.marks_words:
            nothing = np.zeros(len(texts), bool)
            self._is_space = self._is_mark = nothing
            self._parts_before = self._parts_after = nothing
            return
        self._is_space = np.array([text == " " for text in texts])
        self._parts_before = np.array([_stands_alone(text[:1]) for text in texts])
        self._is_mark = np.array([_category(text[:1]) == "M" for text in texts])
        self._parts_after = np.array([_stands_alone(text[-1:]) for text in texts])

    def in_words(self, token_ids: IntArray) -> npt.NDArray[np.bool_]:
        """Return whether each token, int32 `(rows, length)`, belongs to a word."""
        return ~self._is_special[token_ids]

    def __call__(self, token_ids: IntArray) -> npt.NDArray[np.bool_]:
        """Find the first token of each word.

        False for special tokens.
        """
        before = token_ids[:, :-1]
        starts: npt.NDArray[np.bool_] = self._opens[token_ids]
        parts = self._parts_before[token_ids[:, 1:]] | self._parts_after[before]
        joined = self._is_space[before] | self._is_mark[token_ids[:, 1:]]
        starts[:, 1:] |= parts & ~joined
        starts |= self.segment_starts(token_ids)
        return starts & self.in_words(token_ids)

    def segment_starts(self, token_ids: IntArray) -> npt.NDArray[np.bool_]:
        """Return whether a token is the first of a row or follows a special token."""
        first = np.ones(token_ids.shape, bool)
        first[:, 1:] = self._is_special[token_ids[:, :-1]]
        return first


def _stands_alone(character: str) -> bool:
    """Return whether a character is a separate word."""
    if character in _APOSTROPHES:
        return False
    category = _category(character)
    if category in ("L", "N"):
        return _LETTERS.match(character) is not None
    return category in ("P", "S")


def _category(character: str) -> str:
    """Return the first letter of a character's category: "L", "M", "N", ..."""
    return unicodedata.category(character)[0] if character else ""
