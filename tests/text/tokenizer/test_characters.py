"""The table of scripts without spaces, and its uses in masking and tagging."""

import re
import sys
import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest

from keras_albert.text.masking import WordStarts
from keras_albert.text.tags import split_words
from keras_albert.text.tokenizer.text_rules import BLANKS, UNSPACED

SCRIPTS = {
    *("BOPOMOFO", "CJK", "HIRAGANA", "KATAKANA", "KHMER", "LAO", "MYANMAR", "THAI"),
    "TIBETAN",
}
# Characters of the same scripts with other names.
MORE = SCRIPTS | {"HENTAIGANA", "IDEOGRAPHIC", "VERTICAL"}
TEXTS = ["བོད་ཡིག", "ㄅㄆㄇ", "ไทย", "ລາວ", "မြန်မာ", "ខ្មែរ", "時々々", "カﾀｶ"]


def is_unspaced(character):
    return re.match(f"[{UNSPACED}]", character) is not None


def test_blanks_are_all_spaces_and_characters_without_width():
    characters = map(chr, range(sys.maxunicode + 1))
    spaces = {character for character in characters if character.isspace()}
    assert spaces | set("\u200b\u200c\u200d\u200e\u200f\ufeff") == BLANKS


def test_table_contains_all_letters_of_its_scripts():
    letters = [
        chr(code)
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in ("Lo", "Lm")
    ]
    for letter in letters:
        name = unicodedata.name(letter, "").removeprefix("HALFWIDTH ")
        script = name.split(" ")[0].split("-")[0]
        if script in SCRIPTS:
            assert is_unspaced(letter), name
        elif is_unspaced(letter):
            assert script in MORE, name


@pytest.mark.parametrize("text", TEXTS)
def test_masking_and_tagging_find_the_same_words(text):
    ids = np.arange(1, len(text) + 1)[None]
    # A vocabulary with one piece for each character.
    one_each = SimpleNamespace(
        texts=["[CLS]", *text],
        starts_word=np.zeros(1 + len(text), bool),
        marks_words=False,
        special_ids={"cls_token": 0},
    )
    starts = np.flatnonzero(WordStarts(one_each)(ids)[0])
    assert starts.tolist() == split_words(text).starts.tolist()
