"""ALBERT's text rules, written into the vocabulary.

In the reference, they are Python code around SentencePiece. Here they are part of the
model, in its table of rules for characters and sequences
(`normalizer_spec.precompiled_charsmap`), and apply wherever it is used (Python, a
TensorFlow graph, a server), at the speed of C++ and with offsets into the original.
"""

import functools
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import sentencepiece

from keras_albert.text.tokenizer import sentencepiece_file as sentencepiece_messages
from keras_albert.text.tokenizer.sentencepiece_file import parse_vocabulary

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
    """Move the start of each piece, in characters, past its leading blanks."""
    starts = []
    for start, end in spans:
        first = start
        while first < end and text[first] in BLANKS:
            first += 1
        starts.append(first)
    return np.array(starts, np.int32), np.array([end for _, end in spans], np.int32)


_PREFIX = "keras_albert"
_PIECE = sentencepiece_messages.SentencePiece
# SentencePiece's tables that neither lowercase nor remove accents.
_PLAIN_NAMES = {"nmt_nfkc", "nfkc", "identity"}
# No key of a table can contain NUL, so it separates the keys in one long string.
_SEPARATOR = "\0"
# No character beyond plane 2 has a case, a decomposition or a combining class.
_LAST_CHARACTER = 0x2FFFF


@dataclass(frozen=True)
class TextRules:
    """Normalization of a text before it is split into pieces.

    With any rules, runs of whitespace (see `str.isspace`) become one space. The rules
    of the released uncased models are `TextRules()`.

    The Python code of google-research/albert processes the whole text, a table only a
    few characters at a time. This makes two differences: a capital sigma at the end of
    a word becomes the ordinary lowercase sigma, not the final one, and a number before
    a comma may be split differently, in 10 of 260,000 paragraphs of English books and
    encyclopedia articles.

    Args:
        lowercase: bool. Whether to lowercase letters. Defaults to `True`.
        strip_accents: bool. Whether to decompose characters (NFKD) and remove those
            whose combining class is not 0. Defaults to `True`.
        quotes: bool. Whether to replace ``` `` ``` and `''` by `"`, as transformers
            does and google-research/albert does not. Defaults to `False`.
        split_digit_comma: bool. Whether to never use a piece that ends in a digit and
            a comma, so that `2011,` is split into `2011` and `,`. Defaults to `True`.

    Example:
        >>> TextRules(lowercase=False)
        TextRules(lowercase=False, strip_accents=True, quotes=False,
                  split_digit_comma=True)
    """

    lowercase: bool = True
    strip_accents: bool = True
    quotes: bool = False
    split_digit_comma: bool = True


def rule_name(rules: TextRules) -> str:
    """Return the name of rules in a model file, its `normalizer_spec.name`."""
    chosen = [field.name for field in fields(rules) if getattr(rules, field.name)]
    return "_".join([_PREFIX, *chosen])


def default_text_rules(proto: bytes) -> TextRules | None:
    """Return the rules that a model was trained with; `None` keeps its own."""
    model = parse_vocabulary(proto)
    spec = model.normalizer_spec
    # Old models have no name and use the default, nmt_nfkc.
    plain = not spec.name or spec.name in _PLAIN_NAMES
    if not plain or spec.normalization_rule_tsv:
        return None
    cased = any(
        piece.type == _PIECE.NORMAL and any(map(str.isupper, piece.piece))
        for piece in model.pieces
    )
    return None if cased else TextRules()


def add_text_rules(proto: bytes, rules: TextRules) -> bytes:
    """Write text rules into a SentencePiece model.

    For each character, and each sequence in the model's own table, the new rule is
    `own(lower(strip(NFKD(characters))))`, so the model's own rules (`nmt_nfkc` in the
    released files) still apply. Takes about a second, once per table and rules.

    Args:
        proto: bytes. A SentencePiece model.
        rules: The rules to add.

    Returns:
        The model with the rules; the same bytes if it contains them already.

    Raises:
        ValueError: If the bytes are not a SentencePiece model, or it contains other
            text rules, which cannot be removed.

    References:
        - [Lan et al., 2020](https://arxiv.org/abs/1909.11942); the rules are from
          its released code (google-research/albert, `tokenization.py`).

    Example:
        >>> from keras_albert import AlbertTokenizer
        >>> tokenizer = AlbertTokenizer.from_preset("albert_tiny_en_uncased")
        >>> from keras_albert.text import TextRules, add_text_rules
        >>> proto = tokenizer.proto
        >>> add_text_rules(proto, TextRules()) == proto
        True
    """
    model = parse_vocabulary(proto)
    name, own = rule_name(rules), model.normalizer_spec.name
    if own == name:
        return proto
    if own.startswith(_PREFIX):
        raise ValueError(
            f"The vocabulary already has text rules, {own!r}, and these cannot be "
            f'removed. Received: {rules}. Use `text_rules="keep"`, or the original '
            "`spiece.model`."
        )
    charsmap = model.normalizer_spec.precompiled_charsmap
    model.normalizer_spec.precompiled_charsmap = _compose(charsmap, rules)
    model.normalizer_spec.name = name
    if rules.split_digit_comma:
        retire_digit_comma_pieces(model)
    return bytes(model.SerializeToString())


def retire_digit_comma_pieces(model: Any) -> None:
    """Mark pieces that end in digit + comma as unused, in place."""
    # A very low score would also lower the score of unknown characters.
    for piece in model.pieces:
        text = piece.piece
        if piece.type == _PIECE.NORMAL and text[-1:] == "," and text[-2:-1].isdigit():
            piece.type = _PIECE.UNUSED


@functools.lru_cache(maxsize=8)
def _compose(charsmap: bytes, rules: TextRules) -> bytes:
    """Build the table `own(rules(characters))` from a model's own table."""
    own = table_normalizer(charsmap)
    keys = [*all_characters(), *further_keys(charsmap)]
    values = map_keys(lambda text: own.Normalize(_apply(text, rules)), keys)
    table = shorten_table(keys, values)
    if rules.quotes:
        table |= {"``": '"', "''": '"'}
    return compile_table(table)


def all_characters() -> list[str]:
    """Return the characters that a table can have rules for, in order."""
    codes = (*range(1, 0xD800), *range(0xE000, _LAST_CHARACTER + 1))
    return [chr(code) for code in codes]


def further_keys(charsmap: bytes) -> list[str]:
    """Return the other keys of a table than `all_characters`, such as sequences."""
    table = dict(table_normalizer(charsmap).Decompile()) if charsmap else {}
    return [key for key in table if len(key) > 1 or ord(key) > _LAST_CHARACTER]


def map_keys(function: Callable[[str], str], keys: list[str]) -> list[str]:
    """Apply a function to each key, in one call: millions would take seconds."""
    return function(_SEPARATOR.join(keys)).split(_SEPARATOR) if keys else []


def shorten_table(keys: list[str], values: list[str]) -> dict[str, str]:
    """Return a table without rules of sequences that follow from characters."""
    table: dict[str, str] = {}
    for key, value in zip(keys, values, strict=True):
        alone = key if len(key) == 1 else "".join(table.get(c, c) for c in key)
        if value not in (alone, key):
            table[key] = value
    return table


def _apply(text: str, rules: TextRules) -> str:
    """Apply the rules in Python, as the reference does, to the string of all keys."""
    text = "".join([" " if character.isspace() else character for character in text])
    if rules.strip_accents:
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join([c for c in decomposed if not unicodedata.combining(c)])
    return text.lower() if rules.lowercase else text


def table_normalizer(charsmap: bytes) -> Any:
    """Create a normalizer that applies a table and does not change spaces."""
    spaces = ("add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces")
    spec = sentencepiece_messages.NormalizerSpec(
        name="own", precompiled_charsmap=charsmap, **dict.fromkeys(spaces, False)
    )
    return sentencepiece.SentencePieceNormalizer(normalizer_spec=spec)


def compile_table(table: dict[str, str]) -> bytes:
    """Compile a table into SentencePiece's binary format."""
    # Silences the compiler's progress messages on stderr.
    sentencepiece.SetMinLogLevel(1)
    try:
        compiled = sentencepiece.SentencePieceNormalizer(norm_map=list(table.items()))
    finally:
        sentencepiece.SetMinLogLevel(0)
    model = sentencepiece_messages.ModelProto()
    model.ParseFromString(compiled.serialized_model_proto())
    return bytes(model.normalizer_spec.precompiled_charsmap)


def character_class(codes: Iterable[int]) -> str:
    """Return a regular expression, for RE2 and others, of any of some characters."""
    ascending = np.array(sorted(codes))
    parts = []
    for run in np.split(ascending, np.flatnonzero(np.diff(ascending) > 1) + 1):
        last = rf"-\x{{{run[-1]:X}}}" if len(run) > 1 else ""
        parts.append(rf"\x{{{run[0]:X}}}{last}")
    return f"[{''.join(parts)}]"
