"""Conversion between transformers' tokenizer files and SentencePiece models."""

import base64
import binascii
import functools
import math
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_albert.checkpoints.config import wrong_value
from keras_albert.text.tokenizer import sentencepiece_file as sentencepiece_messages
from keras_albert.text.tokenizer import text_rules
from keras_albert.text.tokenizer.sentencepiece_file import (
    MAX_FILE_BYTES,
    SPECIAL_TOKENS,
    check_vocabulary,
    parse_vocabulary,
)
from keras_albert.text.tokenizer.word_piece import (
    added_token,
    is_word_piece,
    parse_word_piece,
    template,
    transformers_config,
)
from keras_albert.utils.reading import (
    parse_json,
    read_bytes,
    read_optional_json,
    reading,
    write_json,
)

Step = dict[str, Any]

_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
_SPACE_RUNS = " {2,}"
# Bounds of a file: one step may take 0.05 s, and longer texts all memory.
MAX_STEPS = 256
MAX_CONTENT = 64
MAX_GROWTH = 4
_RANGE = re.compile(r"\\x\{([0-9A-F]+)\}(?:-\\x\{([0-9A-F]+)\})?")
_CHARACTER_CLASS = re.compile(r"\[(?:\\x\{[0-9A-F]+\}-?)+\]")


@functools.lru_cache(maxsize=8)
def normalizer_steps(charsmap: bytes) -> list[Step]:
    """Return the steps that do what a SentencePiece table does."""
    # They differ where the Unicode version of a client is another, and in characters
    # that the table keeps and NFKC does not, such as the fullwidth tilde in a table
    # without text rules.
    if not charsmap:
        return []
    table = text_rules.table_normalizer(charsmap)
    characters = text_rules.all_characters()
    values = text_rules.map_keys(table.Normalize, characters)
    strips = table.Normalize("\u00e9") == "e"
    steps: list[Step] = [{"type": "NFKD"}] if strips else []
    for content in ("", " "):
        found = [c for c, v in zip(characters, values, strict=True) if v == content]
        steps += _replace_characters(found, content)
    if table.Normalize("A") == "a":
        # Lowercase in JavaScript has a second form at the end of a word.
        steps += [*_replace_characters(["\u03a3"], "\u03c3"), {"type": "Lowercase"}]
    if table.Normalize("\u1100\u1161") == "\uac00":
        steps += [{"type": "NFC" if strips else "NFKC"}]
    keys = [*characters, *text_rules.further_keys(charsmap)]
    return [
        *_exceptions(keys, text_rules.map_keys(table.Normalize, keys), steps),
        *steps,
    ]


def _exceptions(
    keys: list[str], values: list[str], steps: list[Step]
) -> Iterator[Step]:
    """Yield the steps before others that make keys have their values."""
    rules: dict[str, list[str]] = {}
    for key, value, found in zip(keys, values, _run(steps, keys), strict=True):
        # Others know characters that this Python does not.
        if value != found and all(unicodedata.category(c) != "Cn" for c in key):
            rules.setdefault(value, []).append(key)
    after = _run(steps, list(rules))
    kept = {value for value, found in zip(rules, after, strict=True) if value == found}
    for value in sorted(kept):
        for sequence in sorted((k for k in rules[value] if len(k) > 1), key=len):
            yield replace_string(sequence, value)
        yield from _replace_characters([k for k in rules[value] if len(k) == 1], value)


def charsmap_of_steps(steps: list[Step]) -> bytes:
    """Return the table that does what steps do, for a SentencePiece model."""
    # Steps about spaces, which SentencePiece does without a table.
    runs = {"type": "Replace", "pattern": {"Regex": _SPACE_RUNS}, "content": " "}
    spaces = ("Strip", "Prepend")
    steps = [
        x for x in steps if x["type"] not in spaces and not runs.items() <= x.items()
    ]
    if not steps:
        return b""
    if len(steps) > MAX_STEPS:
        raise ValueError(
            f"it has {len(steps):,} normalizer steps, more than {MAX_STEPS}"
        )
    if [step["type"] for step in steps] == ["Precompiled"]:
        return _decode_charsmap(steps[0])
    keys = text_rules.all_characters()
    keys += dict.fromkeys(_sequences(steps, keys))
    return text_rules.compile_table(text_rules.shorten_table(keys, _run(steps, keys)))


def _sequences(steps: list[Step], characters: Iterable[str]) -> Iterator[str]:
    """Yield the sequences that steps may change in other ways than their characters."""
    for step in steps:
        if step["type"] == "Replace" and len(step["pattern"].get("String", "")) > 1:
            yield step["pattern"]["String"]
        if step["type"] == "Precompiled":
            yield from text_rules.further_keys(_decode_charsmap(step))
    if any(step["type"] in ("NFC", "NFKC") for step in steps):
        for character in characters:
            codes = unicodedata.decomposition(character).split()
            if len(codes) > 1 and codes[0][0] != "<":
                yield "".join(chr(int(code, 16)) for code in codes)
            if len(parts := unicodedata.normalize("NFD", character)) > 1:
                yield parts


def _run(steps: list[Step], keys: list[str]) -> list[str]:
    def run(text: str) -> str:
        most = MAX_GROWTH * len(text)
        for step in steps:
            text = _function(step)(text)
            if len(text) > most:
                raise ValueError("its normalizer makes texts several times as long")
        return text

    return text_rules.map_keys(run, keys)


def _function(step: Step) -> Callable[[str], str]:
    kind = step["type"]
    if kind in _FORMS:
        return lambda text: unicodedata.normalize(kind, text)
    if kind == "Lowercase":
        return str.lower
    if kind == "StripAccents":
        return lambda text: "".join(
            [c for c in text if unicodedata.category(c)[0] != "M"]
        )
    if kind == "Precompiled":
        table = text_rules.table_normalizer(_decode_charsmap(step))
        return lambda text: str(table.Normalize(text))
    if kind == "Replace":
        content, pattern = step["content"], step["pattern"]
        if len(content) > MAX_CONTENT:
            raise ValueError(
                f"a step writes {len(content):,} characters, more than {MAX_CONTENT}"
            )
        if string := pattern.get("String"):
            return lambda text: text.replace(string, content)
        if _CHARACTER_CLASS.fullmatch(pattern.get("Regex", "")):
            table = dict.fromkeys(_codes_of_class(pattern["Regex"]), content)
            return lambda text: text.translate(table)
    raise ValueError(f"SentencePiece has no rule for its step {step}")


def _codes_of_class(regex: str) -> list[int]:
    """Return the characters of a class, however many ranges it has."""
    # Python's `re` would compare each character with each range.
    starts = np.zeros(sys.maxunicode + 2, "int32")
    for found in _RANGE.findall(regex):
        first, last = (int(code or found[0], 16) for code in found)
        if first > last:
            raise ValueError(f"a range of its pattern is {first:X} to {last:X}")
        starts[first] += 1
        starts[last + 1] -= 1
    codes: list[int] = np.flatnonzero(np.cumsum(starts) > 0).tolist()
    return codes


def _decode_charsmap(step: Step) -> bytes:
    try:
        return base64.b64decode(step["precompiled_charsmap"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"its character table is damaged ({error})") from error


def replace_string(string: str, content: str) -> Step:
    """Return the step that replaces a string."""
    return {"type": "Replace", "pattern": {"String": string}, "content": content}


def _replace_characters(characters: list[str], content: str) -> list[Step]:
    """Return the step that replaces each of some characters, if there are any."""
    if not characters:
        return []
    regex = text_rules.character_class(map(ord, characters))
    return [{"type": "Replace", "pattern": {"Regex": regex}, "content": content}]


TOKENIZER_FILE = "tokenizer.json"
_CONFIG_FILE = "tokenizer_config.json"

# Its settings of ALBERT's text rules, and what they are if they are missing.
_LOWERCASES, _KEEPS_ACCENTS = "do_lower_case", "keep_accents"

_SPACE = "\u2581"

_RULES_OF_SPACES = (
    *("add_dummy_prefix", "remove_extra_whitespaces", "escape_whitespaces"),
)
_PIECE = sentencepiece_messages.SentencePiece
_TRAINER = sentencepiece_messages.TrainerSpec

# SentencePiece's penalty of a character without a piece, below the lowest score.
_UNKNOWN_PENALTY = 10.0
# The start of a text, or of what follows a mask; the second replaces it in texts.
_START, _NOT_START = "\ufdd0", "\ufdd1"


def vocabulary_from_tokenizer_json(path: Path) -> bytes:
    """Convert a `tokenizer.json` to a SentencePiece model."""
    remedy = (
        "Copy `spiece.model` next to it from the checkpoint's origin, or pass a "
        "`tokenizer` or `preprocessor` of your own."
    )
    with reading(path, remedy):
        found = parse_json(read_bytes(path, MAX_FILE_BYTES))
        unigram = found["model"]
        if unigram.get("type", "Unigram") != "Unigram":
            raise ValueError("its model is not a Unigram")
        model = _model_proto(unigram["vocab"], unigram.get("unk_id"))
        steps = list(_steps(found.get("normalizer")))
        charsmap = charsmap_of_steps(steps)
        # Not a name of SentencePiece: the rules are known and complete. Its defaults
        # of spaces are set.
        model.normalizer_spec.CopyFrom(
            sentencepiece_messages.NormalizerSpec(
                name="tokenizer_json",
                precompiled_charsmap=charsmap,
                **dict.fromkeys(_RULES_OF_SPACES, True),
            )
        )
        # Added tokens, which are split off first, are user-defined symbols.
        added = found.get("added_tokens") or []
        symbols = {token["content"] for token in added if not token["special"]}
        for piece in model.pieces:
            if piece.piece in symbols and piece.type == _PIECE.NORMAL:
                piece.type = _PIECE.USER_DEFINED
        text_rules.retire_digit_comma_pieces(model)
        return check_vocabulary(bytes(model.SerializeToString()))


def add_stated_rules(proto: bytes, directory: Path) -> bytes:
    """Add the text rules of `tokenizer_config.json` to its `spiece.model`."""
    path = directory / _CONFIG_FILE
    stated = _stated_rules(path)
    rules = text_rules.TextRules(**stated)
    if not stated or rules == text_rules.default_text_rules(proto):
        return proto
    with reading(path):
        return text_rules.add_text_rules(proto, rules)


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


def _model_proto(vocab: list[tuple[str, float]], unk_id: int | None) -> Any:
    model = sentencepiece_messages.ModelProto()
    for index, (piece, score) in enumerate(vocab):
        kind = _PIECE.NORMAL
        if index == unk_id:
            kind = _PIECE.UNKNOWN
        elif piece in SPECIAL_TOKENS:
            kind = _PIECE.CONTROL
        model.pieces.add(piece=piece, score=float(score), type=kind)
    ids = {"pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
    kind = _TRAINER.UNIGRAM
    model.trainer_spec.CopyFrom(_TRAINER(model_type=kind, vocab_size=len(vocab), **ids))
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


def write_tokenizer_files(
    directory: Path, proto: bytes, max_length: int
) -> dict[str, Any]:
    """Write `tokenizer.json` and `tokenizer_config.json`, and return the latter."""
    if is_word_piece(proto):
        (directory / TOKENIZER_FILE).write_bytes(proto)
        config = transformers_config(parse_word_piece(proto).rules, max_length)
        write_json(directory / _CONFIG_FILE, config)
        return config
    model = parse_vocabulary(proto)
    _check_kind(model)
    # With them, transformers and transformers.js tokenize as SentencePiece does; a
    # special token that is written in a text is one there.
    ids = {token: index for index, token in enumerate(SPECIAL_TOKENS)}
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        # The mask includes the preceding space, as the word that it replaces would.
        "added_tokens": [
            added_token(index, token) | {"lstrip": index == ids["[MASK]"]}
            for token, index in ids.items()
        ],
        "post_processor": template("[CLS]", "[SEP]", ids),
        **_unigram(model),
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
    write_json(directory / TOKENIZER_FILE, tokenizer)
    write_json(directory / _CONFIG_FILE, config)
    return config


def _check_kind(model: Any) -> None:
    """Raise if the steps of `_unigram` would split texts in other ways."""
    trainer, spaces = model.trainer_spec, model.normalizer_spec
    found = [f"{name}=False" for name in _RULES_OF_SPACES if not getattr(spaces, name)]
    others = ("byte_fallback", "treat_whitespace_as_suffix")
    found += [f"{name}=True" for name in others if getattr(trainer, name)]
    kind = trainer.ModelType.Name(trainer.model_type)
    # One of characters has one way to split a text.
    if kind not in ("UNIGRAM", "CHAR"):
        found.append(f"model_type={kind}")
    if found:
        raise ValueError(
            f"This SentencePiece vocabulary has {', '.join(found)}, and with a "
            f"{TOKENIZER_FILE} texts would get different ids. Export a SavedModel, or "
            'with format="onnx", inputs="text".'
        )


def _unigram(model: Any) -> dict[str, Any]:
    """Return the parts of a `tokenizer.json` that depend on the kind of vocabulary."""
    steps = [
        replace_string(_START, _NOT_START),
        {"type": "Prepend", "prepend": _START},
        *normalizer_steps(model.normalizer_spec.precompiled_charsmap),
    ]
    space = _metaspace(_SPACE, "always")
    # `WhitespaceSplit` and `Metaspace` alone, as transformers writes, would start a
    # word after each mask: "[MASK]." is not "[MASK] .". So a mark starts each part of a
    # text; the first is removed before words are made, and the others with the word
    # start that precedes them. After normalization, a space is the only blank.
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
