"""WordPiece vocabularies, BERT's: their text rules, and their form as bytes.

In memory and in exports, a WordPiece vocabulary is the `tokenizer.json` of Hugging
Face `tokenizers`, always written in the same way: equal vocabularies are equal bytes.
`read_word_piece.py` reads all other forms. BERT's rules change each character alone:
graphs tokenize with a table of all characters, which `tokenizers` computes.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import tokenizers

from keras_albert.types import IntArray
from keras_albert.utils.arguments import check_choice
from keras_albert.utils.reading import parse_json

# Begins a piece that continues a word.
CONTINUES = "##"

# A longer word is one `unk_token`.
MAX_WORD_LENGTH = 100

# The special tokens, in the order of the file's `added_tokens`.
ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")

_REMEDY = (
    "Use the `vocab.txt` of the checkpoint's origin, and name its special tokens in "
    "`WordPieceRules` or `tokenizer_config.json`."
)


@dataclass(frozen=True)
class WordPieceRules:
    """How a WordPiece vocabulary reads texts; the defaults are uncased BERT's.

    Control characters are removed, whitespace and punctuation separate words.

    Args:
        lowercase: bool. Whether to lowercase letters. Defaults to `True`.
        strip_accents: bool or `None`. Whether to decompose characters (NFD) and remove
            nonspacing marks. Defaults to `None`, the value of `lowercase`.
        split_cjk: bool. Whether each Chinese character is a word. Defaults to `True`.
        never_split: Tuple of strings. Pieces of the vocabulary that are found in texts
            as they are written, before any other rule. Defaults to `()`.
        pad_token: string. Defaults to `"[PAD]"`.
        unk_token: string. Defaults to `"[UNK]"`.
        cls_token: string. Defaults to `"[CLS]"`.
        sep_token: string. Defaults to `"[SEP]"`.
        mask_token: string. Defaults to `"[MASK]"`.

    References:
        - [Devlin et al., 2019](https://arxiv.org/abs/1810.04805)

    Example:
        >>> WordPieceRules(lowercase=False).strip_accents
        False
    """

    lowercase: bool = True
    strip_accents: bool | None = None
    split_cjk: bool = True
    never_split: tuple[str, ...] = ()
    pad_token: str = "[PAD]"  # noqa: S105
    unk_token: str = "[UNK]"  # noqa: S105
    cls_token: str = "[CLS]"  # noqa: S105
    sep_token: str = "[SEP]"  # noqa: S105
    mask_token: str = "[MASK]"  # noqa: S105

    def __post_init__(self) -> None:
        strips = self.lowercase if self.strip_accents is None else self.strip_accents
        object.__setattr__(self, "strip_accents", strips)
        object.__setattr__(self, "never_split", tuple(self.never_split))
        flags = {"lowercase": self.lowercase, "split_cjk": self.split_cjk}
        check_choice((True, False), strip_accents=strips, **flags)

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """The special tokens, in the order of `ROLES`."""
        return tuple(getattr(self, role) for role in ROLES)


class WordPiece(NamedTuple):
    """A parsed vocabulary: its pieces in the order of their ids, and its rules."""

    pieces: tuple[str, ...]
    rules: WordPieceRules


def is_word_piece(proto: bytes) -> bool:
    """Return whether a vocabulary's bytes are a WordPiece, not a SentencePiece."""
    return proto[:1] == b"{"


def auto_rules(pieces: Sequence[str]) -> WordPieceRules:
    """Return the rules of uncased BERT, or, if pieces have capitals, of cased BERT."""
    special = WordPieceRules().special_tokens
    plain = (x for x in pieces if x not in special and not x.startswith("["))
    return WordPieceRules(lowercase=all(x.lower() == x for x in plain))


def write_word_piece(pieces: Sequence[str], rules: WordPieceRules) -> bytes:
    """Return a vocabulary as the bytes of a `tokenizer.json`."""
    pieces = list(pieces)
    ids = _check_pieces(pieces)
    for role, token in zip(ROLES, rules.special_tokens, strict=True):
        if token not in ids:
            raise ValueError(
                f"The vocabulary's {len(pieces):,} pieces do not contain {token!r}, "
                f"its `{role}`. {_REMEDY}"
            )
    if len(set(rules.special_tokens)) < len(ROLES):
        msg = f"Each special token needs its own piece. Received: {rules}. {_REMEDY}"
        raise ValueError(msg)
    if missing := set(rules.never_split) - set(ids):
        msg = f"`never_split` contains {missing}, which the vocabulary does not."
        raise ValueError(msg)
    special = [added_token(ids[token], token) for token in rules.special_tokens]
    others = [
        added_token(ids[token], token, special=False)
        for token in rules.never_split
        if token not in rules.special_tokens
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special + others,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": rules.split_cjk,
            "strip_accents": rules.strip_accents,
            "lowercase": rules.lowercase,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": template(rules.cls_token, rules.sep_token, ids),
        "decoder": {"type": "WordPiece", "prefix": CONTINUES, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": rules.unk_token,
            "continuing_subword_prefix": CONTINUES,
            "max_input_chars_per_word": MAX_WORD_LENGTH,
            "vocab": ids,
        },
    }
    return json.dumps(tokenizer, ensure_ascii=False).encode()


@functools.lru_cache(maxsize=4)
def parse_word_piece(proto: bytes) -> WordPiece:
    """Parse the bytes of `write_word_piece`."""
    found = parse_json(proto)
    added = [token["content"] for token in found["added_tokens"]]
    normalizer = found["normalizer"]
    rules = WordPieceRules(
        lowercase=normalizer["lowercase"],
        strip_accents=normalizer["strip_accents"],
        split_cjk=normalizer["handle_chinese_chars"],
        never_split=tuple(added[len(ROLES) :]),
        **dict(zip(ROLES, added, strict=False)),
    )
    return WordPiece(tuple(found["model"]["vocab"]), rules)


def transformers_config(rules: WordPieceRules, max_length: int) -> dict[str, Any]:
    """Return the `tokenizer_config.json` of a vocabulary, for transformers."""
    return {
        "tokenizer_class": "BertTokenizer",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "model_max_length": max_length,
        "do_lower_case": rules.lowercase,
        "strip_accents": rules.strip_accents,
        "tokenize_chinese_chars": rules.split_cjk,
        **dict(zip(ROLES, rules.special_tokens, strict=True)),
    }


def rules_config(rules: WordPieceRules) -> dict[str, Any]:
    """Return rules as they stand in a config."""
    return asdict(rules) | {"never_split": list(rules.never_split)}


def _check_pieces(pieces: list[str]) -> dict[str, int]:
    ids: dict[str, int] = {}
    for index, piece in enumerate(pieces):
        if not isinstance(piece, str) or not piece or "\n" in piece or "\r" in piece:
            raise ValueError(
                f"The vocabulary's piece with id {index} (line {index + 1}) is "
                f"{piece!r}. Each piece is one line with text. {_REMEDY}"
            )
        if ids.setdefault(piece, index) != index:
            raise ValueError(
                f"The vocabulary has {piece!r} twice, with the ids {ids[piece]} and "
                f"{index}. Replace one by an unused piece, as in '[unused{index}]'."
            )
    return ids


def added_token(token_id: int, content: str, special: bool = True) -> dict[str, Any]:
    """Return an entry of the `added_tokens` of a `tokenizer.json`."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": token_id, "content": content, **flags, "special": special}


def template(cls: str, sep: str, ids: Mapping[str, int]) -> dict[str, Any]:
    """Return the `post_processor` of a `tokenizer.json`."""

    def special(token: str, segment: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": segment}}

    def text(name: str, segment: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    first = [special(cls, 0), text("A", 0), special(sep, 0)]
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": [*first, text("B", 1), special(sep, 1)],
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]}
            for token in (cls, sep)
        },
    }


# The kinds of characters.
IN_WORD, SPACE, ALONE, DROPPED = 0, 1, 2, 3

_PAGE = 256
_SEPARATOR = "|"


class CharacterTable(NamedTuple):
    """Replaces each character `c` by `entries[pages[c // 256] * 256 + c % 256]`."""

    pages: IntArray
    entries: IntArray
    kinds: IntArray
    outputs: IntArray
    lengths: IntArray


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
    # character; its place and the separator's are empty.
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
    """Return which characters the pre-tokenizer takes for separate words."""
    text = "a".join(["", *characters, ""])
    words = tokenizers.pre_tokenizers.BertPreTokenizer().pre_tokenize_str(text)
    return {word for word, _ in words if len(word) == 1 and word != "a"}


def is_of_kind(table: CharacterTable, *kinds: int) -> npt.NDArray[np.int64]:
    """Return the codes of all characters of some kinds, ascending."""
    entries = table.entries.reshape(-1, _PAGE)[table.pages].reshape(-1)
    return np.flatnonzero(np.isin(table.kinds[entries], kinds))
