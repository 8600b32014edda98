"""Conversion between transformers' tokenizer files and SentencePiece models."""

import base64
import binascii
import json
from pathlib import Path
from typing import Any

from keras_albert.text.tokenizer import sentencepiece_proto as sentencepiece_messages
from keras_albert.text.tokenizer.text_rules import (
    TextRules,
    add_text_rules,
    retire_digit_comma_pieces,
)
from keras_albert.text.tokenizer.vocabulary_file import (
    MOST_BYTES,
    SPECIAL_TOKENS,
    check_vocabulary,
    parse_vocabulary,
)
from keras_albert.utils.reading import parse_json, read_bytes, reading

TOKENIZER_FILE = "tokenizer.json"
_CONFIG_FILE = "tokenizer_config.json"

_SPACE = "\u2581"

_PIECE = sentencepiece_messages.SentencePiece
_TRAINER = sentencepiece_messages.TrainerSpec

# How far the score of a piece that must never be chosen is below all others.
_NEVER = 100.0

# The normalizer steps that correspond to text rules; SentencePiece cannot do steps that
# are neither here nor in `_IMPLIED`.
_RULES = {"Lowercase": "lowercase", "StripAccents": "strip_accents"}
_QUOTES = ("``", "''")
# Steps that SentencePiece always does, or that the rules above imply.
_IMPLIED = {"NFKD", "NFD", "NFKC", "NFC", "Strip", "Precompiled"}


def vocabulary_from_tokenizer_json(path: Path) -> bytes:
    """Convert a `tokenizer.json` to a SentencePiece model.

    Args:
        path: Path. The file; its model must be a Unigram.

    Returns:
        The bytes of a SentencePiece model with the same pieces, scores and rules.

    Raises:
        ValueError: If the file is damaged, its model is of another kind, or
            SentencePiece has no equivalent of its normalizer.
    """
    remedy = (
        "Copy `spiece.model` beside it from the checkpoint's origin, or pass a "
        "`tokenizer` or `preprocessor` of your own."
    )
    with reading(path, remedy):
        found = parse_json(read_bytes(path, MOST_BYTES))
        unigram = found["model"]
        if unigram.get("type", "Unigram") != "Unigram":
            raise ValueError("its model is not a Unigram")
        model = _model_proto(unigram["vocab"], unigram.get("unk_id"))
        steps = list(_steps(found.get("normalizer")))
        model.normalizer_spec.CopyFrom(_normalizer_spec(steps))
        _guard_symbols(model, found.get("added_tokens") or [])
        retire_digit_comma_pieces(model)
        proto = check_vocabulary(bytes(model.SerializeToString()))
        rules = _text_rules(steps)
        return proto if rules is None else add_text_rules(proto, rules)


def _model_proto(vocab: list[tuple[str, float]], unk_id: int | None) -> Any:
    model = sentencepiece_messages.ModelProto()
    for index, (piece, score) in enumerate(vocab):
        kind = _PIECE.NORMAL
        if index == unk_id:
            kind = _PIECE.UNKNOWN
        elif piece in SPECIAL_TOKENS:
            kind = _PIECE.CONTROL
        model.pieces.add(piece=piece, score=float(score), type=kind)
    model.trainer_spec.CopyFrom(
        _TRAINER(
            model_type=_TRAINER.UNIGRAM,
            vocab_size=len(vocab),
            pad_id=0,
            unk_id=1,
            bos_id=-1,
            eos_id=-1,
        )
    )
    return model


def _steps(normalizer: Any) -> Any:
    """Yield the steps of a normalizer, including nested ones."""
    if normalizer is None:
        return
    if normalizer["type"] == "Sequence":
        for step in normalizer["normalizers"]:
            yield from _steps(step)
    else:
        yield normalizer


def _normalizer_spec(steps: list[dict[str, Any]]) -> Any:
    spec = sentencepiece_messages.NormalizerSpec(
        # Not a name of SentencePiece: the rules are known and complete.
        name="tokenizer_json",
        add_dummy_prefix=True,
        remove_extra_whitespaces=True,
        escape_whitespaces=True,
    )
    for step in steps:
        kind = step["type"]
        if kind == "Precompiled":
            try:
                charsmap = base64.b64decode(step["precompiled_charsmap"], validate=True)
            except binascii.Error as error:
                raise ValueError(f"its character table is damaged ({error})") from error
            spec.precompiled_charsmap = charsmap
        elif kind == "Replace":
            pattern = step["pattern"]
            spaces = pattern.get("Regex") == " {2,}" and step["content"] == " "
            if not spaces and pattern.get("String") not in _QUOTES:
                raise ValueError(f"SentencePiece has no rule for its step {step}")
        elif kind not in _RULES and kind not in _IMPLIED:
            raise ValueError(f"SentencePiece has no rule for its step {step}")
    return spec


def _text_rules(steps: list[dict[str, Any]]) -> TextRules | None:
    kinds = {step["type"] for step in steps}
    quotes = any(step.get("pattern", {}).get("String") in _QUOTES for step in steps)
    chosen = {rule: kind in kinds for kind, rule in _RULES.items()}
    if not any(chosen.values()) and not quotes:
        return None
    return TextRules(**chosen, quotes=quotes)


def _guard_symbols(model: Any, added_tokens: list[dict[str, Any]]) -> None:
    """Mark added tokens, which are split off first, as user-defined symbols."""
    symbols = {token["content"] for token in added_tokens if not token["special"]}
    for piece in model.pieces:
        if piece.piece in symbols and piece.type == _PIECE.NORMAL:
            piece.type = _PIECE.USER_DEFINED


def write_tokenizer_files(directory: Path, proto: bytes, max_length: int) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`.

    transformers' conversion of a `spiece.model` starts a new word after each quotation
    mark or hyphen; these files tokenize as SentencePiece does.
    """
    model = parse_vocabulary(proto)
    charsmap = model.normalizer_spec.precompiled_charsmap
    steps: list[dict[str, Any]] = []
    if charsmap:
        table = base64.b64encode(charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": table})
    steps += [
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
        # Spaces on the left stay: after a mask, one marks the start of a word.
        {"type": "Strip", "strip_left": False, "strip_right": True},
    ]
    space = {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": "first"}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _added_token(index, token) for index, token in enumerate(SPECIAL_TOKENS)
        ],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": space | {"split": True},
        "post_processor": _template(),
        "decoder": space | {"split": True},
        "model": {
            "type": "Unigram",
            "unk_id": 1,
            "vocab": _scored_pieces(model),
            "byte_fallback": False,
        },
    }
    config = {
        # The class that uses `tokenizer.json` unchanged.
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "model_max_length": max_length,
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "cls_token": "[CLS]",
        "bos_token": "[CLS]",
        "sep_token": "[SEP]",
        "eos_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    for name, content in ((TOKENIZER_FILE, tokenizer), (_CONFIG_FILE, config)):
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (directory / name).write_text(f"{text}\n", encoding="utf-8")


def _scored_pieces(model: Any) -> list[list[Any]]:
    """Express SentencePiece's kinds of pieces as scores, since Unigram has no kinds."""
    scores = [piece.score for piece in model.pieces if piece.type == _PIECE.NORMAL]
    best, worst = max(scores, default=0.0), min(scores, default=0.0)
    pieces = []
    for piece in model.pieces:
        score = piece.score
        if piece.type == _PIECE.USER_DEFINED:
            # SentencePiece's rule: better than any split of the piece.
            score = len(piece.piece) * best - 0.1
        elif piece.type == _PIECE.UNUSED:
            score = worst - _NEVER
        pieces.append([piece.piece, score])
    return pieces


def _added_token(index: int, content: str) -> dict[str, Any]:
    return {
        "id": index,
        "content": content,
        "single_word": False,
        # The mask includes the preceding space, as the word that it replaces would.
        "lstrip": content == "[MASK]",
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def _template() -> dict[str, Any]:
    def special(token: str, segment: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": segment}}

    def text(name: str, segment: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    first = [special("[CLS]", 0), text("A", 0), special("[SEP]", 0)]
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": [*first, text("B", 1), special("[SEP]", 1)],
        "special_tokens": {
            token: {
                "id": token,
                "ids": [SPECIAL_TOKENS.index(token)],
                "tokens": [token],
            }
            for token in ("[CLS]", "[SEP]")
        },
    }
