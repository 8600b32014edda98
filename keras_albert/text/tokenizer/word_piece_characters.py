"""What a WordPiece vocabulary's text rules do with each character.

BERT's rules change each character alone, so that a table of all characters contains
them. Graphs tokenize with this table, which is computed by the library that tokenizes
in Python, Hugging Face `tokenizers`.
"""

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tokenizers

from keras_albert.text.tokenizer.word_piece import WordPieceRules
from keras_albert.types import IntArray

# What becomes of a character.
IN_WORD, SPACE, ALONE, DROPPED = 0, 1, 2, 3

_PAGE = 256
_SEPARATOR = "|"


class CharacterTable(NamedTuple):
    """The characters that each character is replaced by, and what it does to words.

    Entry `entries[pages[code // 256] * 256 + code % 256]` is that of a character.
    """

    pages: IntArray
    entries: IntArray
    kinds: IntArray
    outputs: IntArray
    lengths: IntArray

    def entry(self, code: int) -> tuple[int, str]:
        """Return the kind of a character, and the text that replaces it."""
        index = self.entries[self.pages[code // _PAGE] * _PAGE + code % _PAGE]
        first = self.lengths[:index].sum()
        codes = self.outputs[first : first + self.lengths[index]]
        # Most characters stay, and share an entry with the code 0.
        text = "".join(chr(c or code) for c in codes)
        return int(self.kinds[index]), text


@functools.lru_cache(maxsize=4)
def replacements(lowercase: bool, strip_accents: bool, split_cjk: bool) -> list[str]:
    """Return the text that replaces each character, with spaces around lone ones."""
    normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=split_cjk,
        strip_accents=strip_accents,
        lowercase=lowercase,
    )
    codes = (_SEPARATOR if 0xD800 <= c <= 0xDFFF else chr(c) for c in range(0x110000))
    # All in one string, since a million calls would take seconds. A surrogate is no
    # character; its place, and that of the separator, is empty.
    text = _SEPARATOR.join("" if c == _SEPARATOR else c for c in codes)
    found = normalizer.normalize_str(text).split(_SEPARATOR)
    found[ord(_SEPARATOR)] = _SEPARATOR
    return found


@functools.lru_cache(maxsize=4)
def character_table(rules: WordPieceRules) -> CharacterTable:
    """Build the table of a vocabulary's text rules; it takes about three seconds."""
    found = replacements(rules.lowercase, bool(rules.strip_accents), rules.split_cjk)
    marks = _punctuation(sorted({c for text in found for c in text if c != " "}))
    numbers: dict[tuple[int, str], int] = {(IN_WORD, "\0"): 0}
    entries = np.empty(len(found), np.int32)
    for code, text in enumerate(found):
        new = text.strip(" ")
        if not new:
            key = (SPACE if text else DROPPED, "")
        else:
            is_alone = new != text or new in marks
            key = (ALONE if is_alone else IN_WORD, "\0" if new == chr(code) else new)
        entries[code] = numbers.setdefault(key, len(numbers))
    pages, places = np.unique(entries.reshape(-1, _PAGE), axis=0, return_inverse=True)
    outputs = [ord(character) for _, text in numbers for character in text]
    return CharacterTable(
        places.reshape(-1).astype(np.int32),
        pages.reshape(-1),
        np.array([kind for kind, _ in numbers], np.int32),
        np.array(outputs, np.int32),
        np.array([len(text) for _, text in numbers], np.int32),
    )


def _punctuation(characters: list[str]) -> set[str]:
    """Return which characters the pre-tokenizer takes for words of their own."""
    text = "a".join(["", *characters, ""])
    words = tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text)
    return {word for word, _ in words if len(word) == 1 and word != "a"}


def is_of_kind(table: CharacterTable, *kinds: int) -> npt.NDArray[np.int64]:
    """Return the codes of all characters of some kinds, ascending."""
    entries = table.entries.reshape(-1, _PAGE)[table.pages].reshape(-1)
    return np.flatnonzero(np.isin(table.kinds[entries], kinds))
