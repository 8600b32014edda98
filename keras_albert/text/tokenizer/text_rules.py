"""ALBERT's text rules, written into the vocabulary itself.

The reference collapses whitespace, applies NFKD, drops combining characters,
lowers, and splits pieces that end in digit + comma, all in Python around
SentencePiece. Here SentencePiece does it: a model carries a table of rules for
characters and sequences of them (`normalizer_spec.precompiled_charsmap`). So
the rules hold wherever the model goes (Python, a TensorFlow graph, a server),
at the speed of C++ and with offsets into the text as it was given.
"""

import functools
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import sentencepiece

from keras_albert.text.tokenizer import sentencepiece_proto as sentencepiece_messages
from keras_albert.text.tokenizer.vocabulary_file import parse_vocabulary

__all__ = [
    "TextRules",
    "add_text_rules",
    "default_text_rules",
    "read_text_rules",
    "retire_digit_comma_pieces",
    "rule_name",
]

_PREFIX = "keras_albert"
_PIECE = sentencepiece_messages.SentencePiece
# SentencePiece's own tables that neither lower nor drop accents.
_PLAIN_NAMES = {"nmt_nfkc", "nfkc", "identity"}
# No key of a table can hold NUL, so it keeps keys apart in one long string.
_SEPARATOR = "\0"
# No character beyond plane 2 has a case, a decomposition or a combining class.
_LAST_CHARACTER = 0x2FFFF


@dataclass(frozen=True)
class TextRules:
    """What happens to a text before it is cut into pieces.

    Whitespace of every kind (as `str.isspace` has it) becomes one space under
    any rules. The rules of the released uncased models are `TextRules()`.

    The Python code of google-research/albert looks at the whole text where a
    table sees a few characters. So two things differ: a capital sigma at the
    end of a word becomes the plain small one, not the final one, and a number
    before a comma may be cut in another place: 10 of 260,000 paragraphs of
    English books and encyclopedia.

    Args:
        lowercase: bool. Lower every letter. Defaults to `True`.
        strip_accents: bool. Decompose (NFKD) and drop every character whose
            combining class is not 0. Defaults to `True`.
        quotes: bool. Read ``` `` ``` and `''` as `"`, as transformers does and
            google-research/albert does not. Defaults to `False`.
        split_digit_comma: bool. Never use a piece that ends in a digit and a
            comma, so that `2011,` is `2011` and `,`. Defaults to `True`.

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
    """Name rules, for the model file that carries them.

    Args:
        rules: The rules.

    Returns:
        What stands in the model's `normalizer_spec.name`.

    Example:
        >>> rule_name(TextRules(split_digit_comma=False))
        'keras_albert_lowercase_strip_accents'
    """
    chosen = [field.name for field in fields(rules) if getattr(rules, field.name)]
    return "_".join([_PREFIX, *chosen])


def read_text_rules(text_rules: Any) -> str | TextRules:
    """Read a tokenizer's `text_rules` argument.

    Args:
        text_rules: `"auto"`, `"keep"`, a `TextRules`, or the dict of one, which
            is what a saved config holds.

    Returns:
        The str, or the `TextRules`.

    Raises:
        ValueError: It is none of these.
    """
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
    """Choose the rules that a model was trained for.

    Args:
        proto: bytes. A SentencePiece model.

    Returns:
        `TextRules()` for a lower-case model with SentencePiece's plain tables,
        as all released English ones are. `None`, to keep the model as it is,
        if it carries our rules or somebody's own, or has upper-case pieces.

    Raises:
        ValueError: The bytes are no SentencePiece model.
    """
    model = parse_vocabulary(proto)
    spec = model.normalizer_spec
    # A model without a name is as old as the default, which is nmt_nfkc.
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

    For each character, and each sequence that the model's own table knows, the
    new rule is `own(lower(strip(NFKD(characters))))`, so the model's own rules
    (`nmt_nfkc` in the released files) still hold. Takes about a second, once
    for each table and rules.

    Args:
        proto: bytes. A SentencePiece model.
        rules: What to add.

    Returns:
        The model with the rules; one that has them already is handed back as is.

    Raises:
        ValueError: The bytes are no SentencePiece model, or it carries other
            rules of ours, which cannot be taken out again.

    References:
        - [Lan et al., 2020](https://arxiv.org/abs/1909.11942), whose released
          code (google-research/albert, `tokenization.py`) sets the rules.
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
    """See to it that no piece that ends in digit + comma is ever chosen.

    Such pieces become unused: a very low score, transformers' way, would also
    lower the score of unknown characters, which follows the lowest one.

    Args:
        model: A `ModelProto`, changed in place.
    """
    for piece in model.pieces:
        text = piece.piece
        if piece.type == _PIECE.NORMAL and text[-1:] == "," and text[-2:-1].isdigit():
            piece.type = _PIECE.UNUSED


@functools.lru_cache(maxsize=8)
def _compose(charsmap: bytes, rules: TextRules) -> bytes:
    """Build the table `own(rules(characters))` over a model's own table."""
    own = _normalizer(charsmap)
    table = dict(own.Decompile()) if charsmap else {}
    keys = [chr(code) for code in range(1, _LAST_CHARACTER + 1) if _is_scalar(code)]
    keys += [key for key in table if len(key) > 1 or ord(key) > _LAST_CHARACTER]
    # One string, one call of each step: two million calls would take seconds.
    ruled = _apply(_SEPARATOR.join(keys), rules)
    values = own.Normalize(ruled).split(_SEPARATOR)
    composed: dict[str, str] = {}
    for key, value in zip(keys, values, strict=True):
        # A sequence needs a rule of its own only where its characters' rules
        # do not add up to it, as in Hangul. Characters come first in `keys`.
        alone = key if len(key) == 1 else "".join(composed.get(c, c) for c in key)
        if value not in (alone, key):
            composed[key] = value
    if rules.quotes:
        composed |= {"``": '"', "''": '"'}
    return _compile(composed)


def _is_scalar(code: int) -> bool:
    """Whether a code point is a character, not half of one."""
    return not 0xD800 <= code <= 0xDFFF


def _apply(text: str, rules: TextRules) -> str:
    """Do in Python what the reference does, on the string of all keys."""
    text = "".join([" " if character.isspace() else character for character in text])
    if rules.strip_accents:
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join([c for c in decomposed if not unicodedata.combining(c)])
    return text.lower() if rules.lowercase else text


def _normalizer(charsmap: bytes) -> Any:
    """Make a normalizer that applies a table and touches no space."""
    spec = sentencepiece_messages.NormalizerSpec(
        name="own",
        precompiled_charsmap=charsmap,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        escape_whitespaces=False,
    )
    return sentencepiece.SentencePieceNormalizer(normalizer_spec=spec)


def _compile(table: dict[str, str]) -> bytes:
    """Have SentencePiece compile a table into its own binary form."""
    # The compiler reports its progress on stderr; nobody asked for that.
    sentencepiece.SetMinLogLevel(1)
    try:
        compiled = sentencepiece.SentencePieceNormalizer(norm_map=list(table.items()))
    finally:
        sentencepiece.SetMinLogLevel(0)
    model = sentencepiece_messages.ModelProto()
    model.ParseFromString(compiled.serialized_model_proto())
    return bytes(model.normalizer_spec.precompiled_charsmap)
