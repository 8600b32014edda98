"""Conversion between transformers' tokenizer files and SentencePiece models."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_albert.conversion.config import wrong_value
from keras_albert.conversion.normalizers import (
    Step,
    charsmap_of_steps,
    normalizer_steps,
    replace_string,
)
from keras_albert.text.tokenizer import sentencepiece_file as sentencepiece_messages
from keras_albert.text.tokenizer.sentencepiece_file import (
    MOST_BYTES,
    SPECIAL_TOKENS,
    check_vocabulary,
    parse_vocabulary,
)
from keras_albert.text.tokenizer.text_rules import (
    TextRules,
    add_text_rules,
    default_text_rules,
    retire_digit_comma_pieces,
    table_normalizer,
)
from keras_albert.utils.reading import (
    parse_json,
    read_bytes,
    read_optional_json,
    reading,
)

TOKENIZER_FILE = "tokenizer.json"
_CONFIG_FILE = "tokenizer_config.json"

# Its settings of ALBERT's text rules, and what they are if they are missing.
_LOWERCASES, _KEEPS_ACCENTS = "do_lower_case", "keep_accents"

_SPACE = "\u2581"

_PIECE = sentencepiece_messages.SentencePiece
_TRAINER = sentencepiece_messages.TrainerSpec

# SentencePiece's penalty of a character without a piece, below the lowest score.
_UNKNOWN_PENALTY = 10.0
# Marks where a text, or what follows a mask, begins; if a text has it, the second.
_START, _NOT_START = "\ufdd0", "\ufdd1"


def vocabulary_from_tokenizer_json(path: Path) -> bytes:
    """Convert a `tokenizer.json` to a SentencePiece model."""
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
        model.normalizer_spec.CopyFrom(
            sentencepiece_messages.NormalizerSpec(
                # Not a name of SentencePiece: the rules are known and complete.
                name="tokenizer_json",
                precompiled_charsmap=charsmap_of_steps(steps),
                add_dummy_prefix=True,
                remove_extra_whitespaces=True,
                escape_whitespaces=True,
            )
        )
        _compare_rules(path, model.normalizer_spec.precompiled_charsmap)
        _guard_symbols(model, found.get("added_tokens") or [])
        retire_digit_comma_pieces(model)
        return check_vocabulary(bytes(model.SerializeToString()))


def add_stated_rules(proto: bytes, directory: Path) -> bytes:
    """Add the text rules of `tokenizer_config.json` to a `spiece.model` beside it."""
    path = directory / _CONFIG_FILE
    stated = _stated_rules(path)
    rules = TextRules(**stated)
    if not stated or rules == default_text_rules(proto):
        return proto
    with reading(path):
        return add_text_rules(proto, rules)


def _stated_rules(path: Path) -> dict[str, bool]:
    """Return the rules that a `tokenizer_config.json` sets, by our names."""
    config = read_optional_json(path)
    stated = {}
    for name, key in (("lowercase", _LOWERCASES), ("strip_accents", _KEEPS_ACCENTS)):
        value = config.get(key)
        if not isinstance(value, bool | None):
            raise wrong_value(path, key, value, "true or false")
        if value is not None:
            stated[name] = value != (key == _KEEPS_ACCENTS)
    return stated


def _compare_rules(path: Path, charsmap: bytes) -> None:
    """Raise if `tokenizer_config.json` has other rules than a `tokenizer.json`."""
    table = table_normalizer(charsmap)
    found = {"lowercase": table.Normalize("A") == "a"}
    found["strip_accents"] = table.Normalize("\u00e9") == "e"
    beside = path.with_name(_CONFIG_FILE)
    for name, value in _stated_rules(beside).items():
        if found[name] != value:
            raise ValueError(
                f"{path} and {beside} contradict each other: {name} is {found[name]} "
                f"and {value}. Use files of the same checkpoint, or correct the wrong "
                "one."
            )


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


def _steps(normalizer: Any) -> Iterator[Step]:
    """Yield the steps of a normalizer, including nested ones."""
    if normalizer is None:
        return
    if normalizer["type"] == "Sequence":
        for step in normalizer["normalizers"]:
            yield from _steps(step)
    else:
        yield normalizer


def _guard_symbols(model: Any, added_tokens: list[dict[str, Any]]) -> None:
    """Mark added tokens, which are split off first, as user-defined symbols."""
    symbols = {token["content"] for token in added_tokens if not token["special"]}
    for piece in model.pieces:
        if piece.piece in symbols and piece.type == _PIECE.NORMAL:
            piece.type = _PIECE.USER_DEFINED


def write_tokenizer_files(directory: Path, proto: bytes, max_length: int) -> None:
    """Write `tokenizer.json` and `tokenizer_config.json`.

    transformers' conversion of a `spiece.model` starts a new word after each quotation
    mark or hyphen; with these files, transformers and transformers.js tokenize as
    SentencePiece does. A special token that is written in a text is one there.
    """
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _added_token(index, token) for index, token in enumerate(SPECIAL_TOKENS)
        ],
        "post_processor": _template(),
        **_unigram(parse_vocabulary(proto)),
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


def _unigram(model: Any) -> dict[str, Any]:
    """Return the parts of a `tokenizer.json` that depend on the kind of vocabulary."""
    steps = [
        replace_string(_START, _NOT_START),
        {"type": "Prepend", "prepend": _START},
        *normalizer_steps(model.normalizer_spec.precompiled_charsmap),
    ]
    space = _metaspace(_SPACE, "always")
    # `WhitespaceSplit` and `Metaspace` alone, as transformers writes, would begin a
    # word after each mask: "[MASK]." is not "[MASK] .". So a mark begins each part of a
    # text; that of the first is removed before words are made, those after a mask with
    # the word start that precedes them. After normalization, a space is the only blank.
    words = [
        _metaspace(" ", "first"),
        _remove(f" {_START}"),
        _remove(" +"),
        space,
        _remove(f"{_SPACE}{_START}"),
    ]
    return {
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": words},
        "decoder": space,
        "model": {
            "type": "Unigram",
            "unk_id": 1,
            "vocab": _scored_pieces(model),
            "byte_fallback": False,
        },
    }


def _metaspace(replacement: str, prepend_scheme: str) -> Step:
    return {
        "type": "Metaspace",
        "replacement": replacement,
        "prepend_scheme": prepend_scheme,
        "split": False,
    }


def _remove(regex: str) -> Step:
    # transformers.js would keep a "String".
    return {
        "type": "Split",
        "pattern": {"Regex": regex},
        "behavior": "Removed",
        "invert": False,
    }


def _scored_pieces(model: Any) -> list[list[Any]]:
    """Express SentencePiece's kinds of pieces as scores, since Unigram has no kinds."""
    scores = {
        piece.piece: piece.score
        for piece in model.pieces
        if piece.type == _PIECE.NORMAL
    }
    best = max(scores.values(), default=0.0)
    unknown = min(scores.values(), default=0.0) - _UNKNOWN_PENALTY
    pieces = []
    for piece in model.pieces:
        score = piece.score
        if piece.type == _PIECE.USER_DEFINED:
            # SentencePiece's rule: better than any split of the piece.
            score = len(piece.piece.encode()) * best - 0.1
        elif piece.type == _PIECE.UNUSED:
            # Worse than a split, so never chosen, but not so low that it would lower
            # the score of unknown characters.
            score = _split_score(piece.piece, scores, unknown) - 1e-3
        pieces.append([piece.piece, score])
    return pieces


def _split_score(text: str, scores: dict[str, float], unknown: float) -> float:
    """Return the score of the best split of a text into other pieces."""
    best = [0.0]
    for end in range(1, len(text) + 1):
        lasts = [(start, text[start:end]) for start in range(end)]
        best.append(
            max(
                best[start] + scores.get(last, unknown if len(last) == 1 else -math.inf)
                for start, last in lasts
            )
        )
    return best[-1]


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
