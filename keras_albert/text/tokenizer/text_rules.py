"""ALBERT's text rules, written into the vocabulary.

The reference collapses whitespace, applies NFKD, removes combining characters,
lowercases, and splits pieces that end in digit + comma, in Python code around
SentencePiece. Here the rules are part of the SentencePiece model, in its table of
rules for characters and sequences of characters
(`normalizer_spec.precompiled_charsmap`). They thus apply wherever the model is used
(Python, a TensorFlow graph, a server), at the speed of C++ and with offsets into the
original text.
"""

import functools
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import sentencepiece

from keras_albert.text.tokenizer import sentencepiece_proto as sentencepiece_messages
from keras_albert.text.tokenizer.vocabulary_file import parse_vocabulary

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


def read_text_rules(text_rules: Any) -> str | TextRules:
    """Read a tokenizer's `text_rules` argument."""
    if isinstance(text_rules, Mapping):
        return TextRules(**text_rules)
    if isinstance(text_rules, TextRules):
        return text_rules
    if isinstance(text_rules, str) and text_rules in ("auto", "keep"):
        return text_rules
    raise ValueError(
        '`text_rules` must be "auto", "keep" or a `TextRules`. '
        f"Received: {text_rules!r}. Pass `TextRules(lowercase=False)` for a cased "
        'vocabulary, or leave "auto".'
    )


def default_text_rules(proto: bytes) -> TextRules | None:
    """Return the rules that a model was trained with.

    `None` keeps a model that contains rules or has uppercase pieces; other lowercase
    models with a plain table have `TextRules()`.
    """
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
        - [Lan et al., 2020](https://arxiv.org/abs/1909.11942); the rules are those of
          its released code (google-research/albert, `tokenization.py`).
    """
    model = parse_vocabulary(proto)
    name, own = rule_name(rules), model.normalizer_spec.name
    if own == name:
        return proto
    if own.startswith(_PREFIX):
        raise ValueError(
            f"The vocabulary already carries text rules, {own!r}, and rules cannot be "
            f'taken out again. Received: {rules}. Use `text_rules="keep"`, or start '
            "from the original `spiece.model`."
        )
    charsmap = model.normalizer_spec.precompiled_charsmap
    model.normalizer_spec.precompiled_charsmap = _compose(charsmap, rules)
    model.normalizer_spec.name = name
    if rules.split_digit_comma:
        retire_digit_comma_pieces(model)
    return bytes(model.SerializeToString())


def retire_digit_comma_pieces(model: Any) -> None:
    """Mark pieces of a `ModelProto` that end in digit + comma as unused, in place.

    A very low score, as in transformers, would also lower the score of unknown
    characters, which is derived from the lowest score.
    """
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
    """Return the keys of a table that `all_characters` lacks, such as sequences."""
    table = dict(table_normalizer(charsmap).Decompile()) if charsmap else {}
    return [key for key in table if len(key) > 1 or ord(key) > _LAST_CHARACTER]


def map_keys(function: Callable[[str], str], keys: list[str]) -> list[str]:
    """Apply a function to each key, in one call: millions would take seconds."""
    return function(_SEPARATOR.join(keys)).split(_SEPARATOR) if keys else []


def shorten_table(keys: list[str], values: list[str]) -> dict[str, str]:
    """Return a table without the rules that follow from others; characters first.

    A sequence needs a rule only if the rules of its characters do not have the same
    result, as in Hangul.
    """
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
    spec = sentencepiece_messages.NormalizerSpec(
        name="own",
        precompiled_charsmap=charsmap,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        escape_whitespaces=False,
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
