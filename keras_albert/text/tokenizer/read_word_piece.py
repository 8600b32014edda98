"""Reads WordPiece vocabularies from the files of other libraries."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from keras_albert.text.tokenizer.sentencepiece_file import MAX_FILE_BYTES
from keras_albert.text.tokenizer.word_piece import (
    CONTINUES,
    MAX_WORD_LENGTH,
    ROLES,
    WordPieceRules,
    auto_rules,
    parse_word_piece,
    write_word_piece,
)
from keras_albert.utils.reading import (
    parse_json,
    read_bytes,
    read_optional_json,
    reading,
)

PIECES_FILE = "vocab.txt"
_TOKENIZER_FILE = "tokenizer.json"
_CONFIG_FILE = "tokenizer_config.json"
_TOKENS_FILE = "special_tokens_map.json"
_ADDED_FILE = "added_tokens.json"
_KERAS_HUB_FILE = "assets/tokenizer/vocabulary.txt"

# The names of the rules in `tokenizer_config.json` and in KerasHub's configs.
_OF_TRANSFORMERS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "split_cjk",
}
_OF_KERAS_HUB = {
    "lowercase": "lowercase",
    "strip_accents": "strip_accents",
    "split_on_cjk": "split_cjk",
}

# Settings of a `tokenizer_config.json` with another result, and the only values read.
_SUPPORTED = {
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
    "do_basic_tokenize": True,
    "do_word_tokenize": True,
}
_OWN = (
    "Tokenize with the original library, and pass ids; or train a vocabulary with "
    "`keras_albert.text.train_vocabulary`."
)


def has_word_piece(directory: str | os.PathLike[str]) -> bool:
    """Return whether a directory's vocabulary is a WordPiece, whatever its form."""
    folder = Path(directory)
    if (folder / PIECES_FILE).is_file() or (folder / _KERAS_HUB_FILE).is_file():
        return True
    path = folder / _TOKENIZER_FILE
    if not path.is_file():
        return False
    with reading(path):
        model = parse_json(read_bytes(path, MAX_FILE_BYTES)).get("model")
        return isinstance(model, dict) and model.get("type") == "WordPiece"


def read_word_piece(directory: str | os.PathLike[str]) -> bytes:
    """Read the WordPiece vocabulary of a checkpoint's or KerasHub's directory."""
    folder = Path(directory)
    if (folder / _KERAS_HUB_FILE).is_file():
        return _read_keras_hub(folder)
    config = read_optional_json(folder / _CONFIG_FILE)
    config_path = folder / _CONFIG_FILE
    special_map = read_optional_json(folder / _TOKENS_FILE)
    with reading(config_path):
        for key, value in _SUPPORTED.items():
            _check_setting(config_path, key, config.get(key), value)
        given = _rules_in(config, _OF_TRANSFORMERS)
        tokens = _tokens_in(special_map) | _tokens_in(config)
        never_split = _never_split_in(special_map) + _never_split_in(config)
    pieces_path, json_path = folder / PIECES_FILE, folder / _TOKENIZER_FILE
    pieces = read_pieces(pieces_path) if pieces_path.is_file() else None
    if json_path.is_file():
        with reading(json_path):
            content = read_bytes(json_path, MAX_FILE_BYTES)
            found, rules = _parse_tokenizer_json(content, str(json_path), tokens)
        _compare(asdict(rules), given | tokens, json_path, config_path)
        if pieces is not None:
            # Tokens that were added later are in `tokenizer.json` only.
            _compare(_by_id(found), _by_id(pieces), json_path, pieces_path)
        path, pieces = json_path, found
    elif pieces is not None:
        path = pieces_path
        if added := read_optional_json(folder / _ADDED_FILE):
            with reading(folder / _ADDED_FILE):
                pieces = _in_order({p: i for i, p in enumerate(pieces)} | added)
            never_split += list(added)
        rules = WordPieceRules(
            **{"lowercase": auto_rules(pieces).lowercase} | given | tokens
        )
    else:
        raise FileNotFoundError(
            f"{folder} has no `{PIECES_FILE}` and no `{_TOKENIZER_FILE}`. Copy the "
            "vocabulary from the origin of the checkpoint; byte-level BPE "
            f"(`merges.txt`), as of RoBERTa, is not read. {_OWN}"
        )
    kept = dict.fromkeys((*rules.never_split, *never_split))
    special = set(rules.special_tokens)
    rules = replace(rules, never_split=tuple(t for t in kept if t not in special))
    with reading(path):
        return write_word_piece(pieces, rules)


def read_word_piece_file(path: str | os.PathLike[str]) -> tuple[list[str], Any]:
    """Read a `vocab.txt`, which has no rules, or a `tokenizer.json`."""
    if os.fspath(path).endswith(".json"):
        with reading(path):
            content = read_bytes(path, MAX_FILE_BYTES)
            return _parse_tokenizer_json(content, os.fspath(path), {})
    return read_pieces(path), None


def read_word_piece_bytes(content: bytes) -> tuple[Sequence[str], WordPieceRules]:
    """Read the bytes of `write_word_piece`, or of any other `tokenizer.json`."""
    with suppress(ValueError, LookupError, AttributeError, TypeError, RuntimeError):
        found = parse_word_piece(content)
        if write_word_piece(*found) == content:
            return found
    name = "The `tokenizer.json`"
    with reading(name):
        return _parse_tokenizer_json(content, name, {})


def read_pieces(path: str | os.PathLike[str]) -> list[str]:
    """Read the lines of a `vocab.txt`."""
    with reading(path):
        return split_pieces(read_bytes(path, MAX_FILE_BYTES))


def split_pieces(content: bytes) -> list[str]:
    """Return the lines of a `vocab.txt`."""
    lines = content.decode("utf-8-sig").replace("\r\n", "\n").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _rules_in(config: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the rules that a config sets, by our names."""
    found = {ours: config.get(theirs) for theirs, ours in names.items()}
    return {name: value for name, value in found.items() if value is not None}


def _tokens_in(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the special tokens that a config names, by role."""
    found = {}
    for role in ROLES:
        token = config.get(role)
        token = token.get("content") if isinstance(token, dict) else token
        if token is not None:
            found[role] = token
    return found


def _never_split_in(config: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for key in ("never_split", "additional_special_tokens", "extra_special_tokens"):
        tokens = config.get(key) or []
        tokens = list(tokens.values()) if isinstance(tokens, dict) else tokens
        found += [t["content"] if isinstance(t, dict) else t for t in tokens]
    return found


def _parse_tokenizer_json(
    content: bytes, path: str, tokens: Mapping[str, str]
) -> tuple[list[str], WordPieceRules]:
    """Return the pieces and rules of a `tokenizer.json`."""
    found = parse_json(content)
    model = found["model"]
    if model.get("type") != "WordPiece":
        kind = model.get("type")
        raise ValueError(
            f"{path} has a vocabulary of type {kind!r}, which keras_albert does not "
            f"read: it reads WordPiece, as of BERT, and Unigram, as of ALBERT. {_OWN}"
        )
    for part, setting, expected in (
        (model, "continuing_subword_prefix", CONTINUES),
        (model, "max_input_chars_per_word", MAX_WORD_LENGTH),
        (_only(found, "normalizer"), "type", "BertNormalizer"),
        (_only(found, "normalizer"), "clean_text", True),
        (_only(found, "pre_tokenizer"), "type", "BertPreTokenizer"),
    ):
        _check_setting(path, setting, part.get(setting, "nothing"), expected)
    added = found.get("added_tokens") or []
    pieces = _in_order(
        model["vocab"] | {token["content"]: token["id"] for token in added}
    )
    special = {**tokens, **_roles(found, model["unk_token"], added)}
    others = [token for token in added if token["content"] not in special.values()]
    for token in others:
        flags = ("single_word", "lstrip", "rstrip", "normalized")
        if flag := next((flag for flag in flags if token.get(flag)), None):
            raise ValueError(
                f"{path} has the added token {token['content']!r} with {flag}=true, "
                f"which keras_albert does not have. {_OWN}"
            )
    normalizer = _only(found, "normalizer")
    rules = WordPieceRules(
        lowercase=normalizer["lowercase"],
        strip_accents=normalizer["strip_accents"],
        split_cjk=normalizer["handle_chinese_chars"],
        never_split=tuple(token["content"] for token in others),
        **special,
    )
    return pieces, rules


def _only(found: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a step of a `tokenizer.json`, also if it is a sequence of one."""
    step = found.get(name) or {}
    if step.get("type") == "Sequence" and len(inner := step[f"{name}s"]) == 1:
        step = inner[0]
    return dict(step)


def _in_order(ids: Mapping[str, int]) -> list[str]:
    pieces = sorted(ids, key=ids.__getitem__)
    for index, piece in enumerate(pieces):
        if ids[piece] != index:
            raise ValueError(f"{piece!r} has id {ids[piece]}, but {index} is the next")
    return pieces


def _roles(found: Any, unknown: str, added: Sequence[Any]) -> dict[str, str]:
    """Return the special tokens of a `tokenizer.json`, which names two only by use."""
    special = [token["content"] for token in added if token["special"]]
    roles = {"unk_token": unknown}
    post = found.get("post_processor") or {}
    if post.get("type") == "BertProcessing":
        roles |= {"cls_token": post["cls"][0], "sep_token": post["sep"][0]}
    elif post.get("type") == "TemplateProcessing":
        ends = [x["SpecialToken"]["id"] for x in post["single"] if "SpecialToken" in x]
        if len(ends) == 2:
            roles |= {"cls_token": ends[0], "sep_token": ends[1]}
    rest = [token for token in special if token not in roles.values()]
    for role, word in (("pad_token", "pad"), ("mask_token", "mask")):
        named = [token for token in rest if word in token.lower()]
        if len(named) == 1:
            roles[role] = named[0]
    return roles


def _check_setting(path: Any, key: str, value: Any, expected: Any) -> None:
    """Raise if a file sets something else than BERT does; `None` sets nothing."""
    if value is not None and value != expected:
        raise ValueError(
            f"{path} sets {key}={value!r}; keras_albert tokenizes as BERT does, with "
            f"{expected!r}. {_OWN}"
        )


def _compare(
    found: Mapping[str, Any], given: Mapping[str, Any], path: Path, other: Path
) -> None:
    """Raise if one file has something that another contradicts."""
    for name, value in given.items():
        if found.get(name) != value:
            raise ValueError(
                f"{path} and {other} contradict each other: {name} is "
                f"{found.get(name)!r} and {value!r}. Use files of the same checkpoint, "
                "or remove the wrong one."
            )


def _by_id(pieces: Sequence[str]) -> dict[str, str]:
    return {f"id {index}": piece for index, piece in enumerate(pieces)}


def _read_keras_hub(folder: Path) -> bytes:
    path = folder / _TOKENIZER_FILE
    config = read_optional_json(path).get("config") or {}
    with reading(path):
        for key, expected in (("suffix_indicator", CONTINUES), ("split", True)):
            _check_setting(path, key, config.get(key), expected)
        rules = WordPieceRules(
            **{"lowercase": False, "strip_accents": False}
            | _rules_in(config, _OF_KERAS_HUB)
        )
    pieces = read_pieces(folder / _KERAS_HUB_FILE)
    with reading(folder / _KERAS_HUB_FILE):
        return write_word_piece(pieces, rules)
