"""Reads a tokenizer's vocabulary and text rules, of either kind."""

import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from keras_albert.text.tokenizer.read_word_piece import (
    read_word_piece_bytes,
    read_word_piece_file,
)
from keras_albert.text.tokenizer.text_rules import (
    TextRules,
    add_text_rules,
    default_text_rules,
    read_text_rules,
)
from keras_albert.text.tokenizer.vocabularies import (
    SentencePieceVocabulary,
    WordPieceVocabulary,
)
from keras_albert.text.tokenizer.vocabulary_file import (
    SPECIAL_TOKENS,
    check_vocabulary,
    read_vocabulary,
)
from keras_albert.text.tokenizer.word_piece import (
    ROLES,
    WordPieceRules,
    auto_rules,
    is_word_piece,
    is_word_piece_config,
    parse_word_piece,
    rules_config,
    rules_from_config,
    write_word_piece,
)
from keras_albert.utils.reading import reading

VocabularySource = str | os.PathLike[str] | bytes | Sequence[str]
AnyRules = str | TextRules | WordPieceRules


def read_any_rules(text_rules: Any) -> AnyRules:
    """Read a tokenizer's `text_rules`; see `read_text_rules`."""
    if isinstance(text_rules, WordPieceRules):
        return text_rules
    if is_word_piece_config(text_rules):
        return rules_from_config(text_rules)
    return read_text_rules(text_rules)


def rules_in_config(rules: AnyRules, proto: bytes | None) -> Any:
    """Return the text rules that a tokenizer's config contains.

    Those of a SentencePiece model are written into it, and `"auto"` keeps them; those
    of a WordPiece stand in the config only.
    """
    if proto is not None and is_word_piece(proto):
        return rules_config(parse_word_piece(proto).rules)
    if isinstance(rules, WordPieceRules):
        return rules_config(rules)
    if isinstance(rules, TextRules):
        return asdict(rules) if proto is None else "auto"
    return rules


def asset_of(rules: AnyRules) -> str:
    """Return the name of the file that a vocabulary with these rules is saved to."""
    is_words = isinstance(rules, WordPieceRules)
    return (WordPieceVocabulary if is_words else SentencePieceVocabulary).asset


def special_tokens_of(rules: AnyRules) -> dict[str, str]:
    """Return the special tokens of a vocabulary with these rules, by role."""
    own = rules.special_tokens if isinstance(rules, WordPieceRules) else SPECIAL_TOKENS
    return dict(zip(ROLES, own, strict=True))


def read_any_vocabulary(source: VocabularySource, rules: AnyRules) -> bytes:
    """Read and check a vocabulary, and add text rules to it."""
    if isinstance(source, bytes):
        return _of_bytes(source, rules)
    if isinstance(source, str | os.PathLike):
        if os.fspath(source).endswith((".txt", ".json")):
            pieces, own = read_word_piece_file(source)
            with reading(source):
                return _word_piece(pieces, own, rules)
        return read_vocabulary(source, partial(_of_bytes, rules=rules))
    return _word_piece(list(source), None, rules)


def _of_bytes(proto: bytes, rules: AnyRules) -> bytes:
    if is_word_piece(proto):
        return _word_piece(*read_word_piece_bytes(proto), rules)
    return _sentence_piece(check_vocabulary(proto), rules)


def _word_piece(
    pieces: Sequence[str], own: WordPieceRules | None, rules: AnyRules
) -> bytes:
    if isinstance(rules, TextRules):
        raise ValueError(
            "The vocabulary is a WordPiece, and `TextRules` are those of SentencePiece."
            f" Received: text_rules={rules}. Pass `WordPieceRules`, or leave it out."
        )
    if isinstance(rules, str):
        rules = own or auto_rules(pieces)
    return write_word_piece(pieces, rules)


def _sentence_piece(proto: bytes, rules: AnyRules) -> bytes:
    if isinstance(rules, WordPieceRules):
        raise ValueError(
            "The vocabulary is a SentencePiece model, and `WordPieceRules` are those "
            f"of WordPiece. Received: text_rules={rules}. Pass `TextRules`, or leave "
            "it out."
        )
    if rules == "auto":
        rules = default_text_rules(proto) or "keep"
    return proto if isinstance(rules, str) else add_text_rules(proto, rules)
