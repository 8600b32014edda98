"""One interface to the two kinds of vocabularies, SentencePiece and WordPiece.

A vocabulary is the bytes of a file: of a SentencePiece model, or of a WordPiece (see
`word_piece.py`). `open_vocabulary` recognizes them; nothing else asks for the kind.
`read_any_vocabulary` reads what a user passes, with its text rules.
"""

import abc
import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import tokenizers

from keras_albert.text.tokenizer.read_word_piece import (
    read_word_piece_bytes,
    read_word_piece_file,
)
from keras_albert.text.tokenizer.sentencepiece_file import (
    SPECIAL_TOKENS,
    SentencePiece,
    check_vocabulary,
    parse_vocabulary,
    piece_probabilities,
    read_vocabulary,
    sentence_piece,
)
from keras_albert.text.tokenizer.text_rules import (
    TextRules,
    add_text_rules,
    default_text_rules,
    trim_blanks,
)
from keras_albert.text.tokenizer.word_piece import (
    CONTINUES,
    ROLES,
    WordPieceRules,
    auto_rules,
    is_word_piece,
    parse_word_piece,
    rules_config,
    write_word_piece,
)
from keras_albert.types import FloatArray, IntArray
from keras_albert.utils.arguments import check_choice
from keras_albert.utils.reading import reading

# Fewer are tokenized without threads.
_FEW_ROWS = 32
_FEW_CHARACTERS = 4096

# SentencePiece's symbol for a space.
SPACE = "\u2581"

# Pieces that stand in a text without a space before them.
_CLOSING = (".", "?", "!", ",")

# The ids of a text, and the characters where each token starts and ends.
TokenOffsets = tuple[IntArray, IntArray, IntArray]


class Vocabulary(abc.ABC):
    """The pieces of a vocabulary, and how texts become ids and ids texts."""

    # The name of the file in a preset, and in transformers.
    asset: str
    file_name: str

    # Whether the pieces that continue a word are marked, so that all others start one.
    marks_words = False
    pieces: Sequence[str]

    # The special tokens by the names of transformers, `pad_token` and so on.
    special_tokens: dict[str, str]

    def __init__(self, proto: bytes) -> None:
        self.proto = proto

    @functools.cached_property
    def ids(self) -> dict[str, int]:
        """The id of each piece."""
        return {piece: index for index, piece in enumerate(self.pieces)}

    @functools.cached_property
    def special_ids(self) -> dict[str, int]:
        """The ids of the special tokens, by the names of `special_tokens`."""
        return {role: self.ids[token] for role, token in self.special_tokens.items()}

    @property
    def unknown_id(self) -> int:
        """The id of unknown text."""
        return self.special_ids["unk_token"]

    @property
    @abc.abstractmethod
    def texts(self) -> list[str]:
        """The text that each piece adds, with the space before it."""

    @property
    def starts_word(self) -> npt.NDArray[np.bool_]:
        """Whether each piece is marked as the first of a word; bool `(pieces,)`."""
        return np.array([text.startswith(" ") for text in self.texts])

    @property
    def text_ids(self) -> IntArray:
        """The ids of pieces of text, without special tokens; int32, increasing."""
        special = set(self.special_tokens.values())
        found = [i for i, piece in enumerate(self.pieces) if piece not in special]
        return np.array(found, np.int32)

    @functools.cached_property
    def inner_ids(self) -> IntArray:
        """The id of each piece without the space before it, or -1."""
        return np.arange(len(self.pieces), dtype=np.int32)

    def probabilities(self) -> FloatArray:
        """Return the probability of each piece, float32 `(pieces,)`."""
        raise ValueError(
            "A WordPiece vocabulary has no probabilities of pieces. Pass "
            "`inverse_frequency=None`, or use a SentencePiece vocabulary."
        )

    def contents(self) -> bytes:
        """Return the content of the file `asset`."""
        return self.proto

    @abc.abstractmethod
    def encode(self, rows: list[str], num_threads: int = -1) -> list[IntArray]:
        """Return the ids of each row, int32; `num_threads` is 1 or -1, all."""

    @abc.abstractmethod
    def encode_pieces(self, rows: list[str]) -> list[list[str]]:
        """Return the pieces of each row."""

    @abc.abstractmethod
    def encode_with_offsets(self, rows: list[str]) -> list[TokenOffsets]:
        """Return the tokens of each row, and where they are in it."""

    @abc.abstractmethod
    def decode(self, rows: list[list[int]]) -> list[str]:
        """Return the texts of rows of ids; WordPiece joins words by spaces."""


class SentencePieceVocabulary(Vocabulary):
    """A SentencePiece model with ALBERT's special tokens."""

    asset, file_name = "vocabulary.spm", "spiece.model"

    def __init__(self, proto: bytes) -> None:
        super().__init__(proto)
        self.special_tokens = dict(zip(ROLES, SPECIAL_TOKENS, strict=True))
        processor = sentence_piece(proto)
        self.pieces = processor.IdToPiece(list(range(processor.vocab_size())))

    @functools.cached_property
    def texts(self) -> list[str]:
        return [piece.replace(SPACE, " ") for piece in self.pieces]

    @property
    def text_ids(self) -> IntArray:
        # Neither control nor byte pieces.
        types = [piece.type for piece in parse_vocabulary(self.proto).pieces]
        is_text = np.isin(types, (SentencePiece.NORMAL, SentencePiece.USER_DEFINED))
        is_text[: len(SPECIAL_TOKENS)] = False
        return np.flatnonzero(is_text).astype(np.int32)

    @functools.cached_property
    def inner_ids(self) -> IntArray:
        found = np.arange(len(self.pieces), dtype=np.int32)
        for index, piece in enumerate(self.pieces):
            if piece.startswith(SPACE):
                inner = self.ids.get(piece.removeprefix(SPACE), 0)
                # A special token is not a piece of a text.
                found[index] = index if inner < len(SPECIAL_TOKENS) else inner
        if SPACE in self.ids:
            found[self.ids[SPACE]] = -1
        return found

    def probabilities(self) -> FloatArray:
        return piece_probabilities(self.proto)

    def encode(self, rows: list[str], num_threads: int = -1) -> list[IntArray]:
        return self._encode(rows, "numpy", num_threads)

    def encode_pieces(self, rows: list[str]) -> list[list[str]]:
        """Return the pieces of each row; an unknown piece is its text."""
        return sentence_piece(self.proto).Encode(rows, out_type=str)

    def encode_with_offsets(self, rows: list[str]) -> list[TokenOffsets]:
        encoded = self._encode(rows, "offset_mapping")
        return [
            (np.array(row["ids"], np.int32), *trim_blanks(text, row["offsets"]))
            for text, row in zip(rows, encoded, strict=True)
        ]

    def _encode(
        self, rows: list[str], return_type: str, num_threads: int = -1
    ) -> list[Any]:
        encode = sentence_piece(self.proto).Encode
        if _is_few(rows):
            # A thread takes longer to start than such texts to tokenize.
            return [encode(row, return_type=return_type) for row in rows]
        how: Any = {"return_type": return_type, "num_threads": num_threads}
        return encode(rows, **how)

    def decode(self, rows: list[list[int]]) -> list[str]:
        return sentence_piece(self.proto).Decode(rows)


class WordPieceVocabulary(Vocabulary):
    """A WordPiece vocabulary, tokenized by Hugging Face `tokenizers`."""

    asset, file_name, marks_words = "vocabulary.txt", "vocab.txt", True

    def __init__(self, proto: bytes) -> None:
        super().__init__(proto)
        self.pieces, self.rules = parse_word_piece(proto)
        self.special_tokens = dict(zip(ROLES, self.rules.special_tokens, strict=True))
        self._tokenizer = tokenizers.Tokenizer.from_str(proto.decode())
        # Otherwise, special tokens written in a text would become special tokens.
        self._tokenizer.encode_special_tokens = True

    @functools.cached_property
    def texts(self) -> list[str]:
        """The text that each piece adds, as in the decoder of `tokenizers`."""
        return [
            piece.removeprefix(CONTINUES)
            if piece.startswith((CONTINUES, *_CLOSING)) and piece != CONTINUES
            else f" {piece}"
            for piece in self.pieces
        ]

    @property
    def starts_word(self) -> npt.NDArray[np.bool_]:
        return np.array([not piece.startswith(CONTINUES) for piece in self.pieces])

    def contents(self) -> bytes:
        """Return the pieces, one a line; a config has the rules."""
        return "".join(f"{piece}\n" for piece in self.pieces).encode()

    def encode(self, rows: list[str], num_threads: int = -1) -> list[IntArray]:
        if num_threads == 1 or _is_few(rows):
            encode = self._tokenizer.encode
            found = [encode(row, add_special_tokens=False) for row in rows]
        else:
            found = self._tokenizer.encode_batch_fast(rows, add_special_tokens=False)
        return [np.array(row.ids, np.int32) for row in found]

    def encode_pieces(self, rows: list[str]) -> list[list[str]]:
        return [[self.pieces[i] for i in row] for row in self.encode(rows)]

    def encode_with_offsets(self, rows: list[str]) -> list[TokenOffsets]:
        found = self._tokenizer.encode_batch(rows, add_special_tokens=False)
        rows_found = []
        for row in found:
            spans = np.array(row.offsets, np.int32).reshape(-1, 2)
            starts, ends = spans[:, 0], spans[:, 1]
            # The last of several pieces of one character has its text.
            ends[:-1] = np.minimum(ends[:-1], starts[1:])
            rows_found.append((np.array(row.ids, np.int32), starts, ends))
        return rows_found

    def decode(self, rows: list[list[int]]) -> list[str]:
        special = set(self.special_tokens.values()) - {self.special_tokens["unk_token"]}
        dropped = {self.ids[token] for token in special}
        return [
            "".join(self.texts[i] for i in row if i not in dropped).removeprefix(" ")
            for row in rows
        ]


@functools.lru_cache(maxsize=8)
def open_vocabulary(proto: bytes) -> Vocabulary:
    """Open a vocabulary of either kind."""
    kind = WordPieceVocabulary if is_word_piece(proto) else SentencePieceVocabulary
    return kind(proto)


def _is_few(rows: list[str]) -> bool:
    return len(rows) < _FEW_ROWS and sum(map(len, rows)) < _FEW_CHARACTERS


VocabularySource = str | os.PathLike[str] | bytes | Sequence[str]
AnyRules = str | TextRules | WordPieceRules


def read_any_rules(text_rules: Any) -> AnyRules:
    """Read a tokenizer's `text_rules`: rules, their config, "auto" or "keep"."""
    if isinstance(text_rules, Mapping):
        kind = WordPieceRules if "split_cjk" in text_rules else TextRules
        return kind(**text_rules)
    if not isinstance(text_rules, WordPieceRules | TextRules):
        check_choice(("auto", "keep"), text_rules=text_rules)
    return text_rules


def rules_in_config(rules: AnyRules, proto: bytes | None) -> Any:
    """Return the text rules of a tokenizer's config; `"auto"` keeps the file's."""
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
    if not isinstance(source, str | os.PathLike):
        return _word_piece(list(source), None, rules)
    if os.fspath(source).endswith((".txt", ".json")):
        pieces, own = read_word_piece_file(source)
        with reading(source):
            return _word_piece(pieces, own, rules)
    return read_vocabulary(source, partial(_of_bytes, rules=rules))


def _of_bytes(proto: bytes, rules: AnyRules) -> bytes:
    if is_word_piece(proto):
        return _word_piece(*read_word_piece_bytes(proto), rules)
    proto = check_vocabulary(proto)
    if isinstance(rules, WordPieceRules):
        raise ValueError(
            "The vocabulary is a SentencePiece model, but `WordPieceRules` are for "
            f"WordPiece. Received: text_rules={rules}. Pass `TextRules`."
        )
    if rules == "auto":
        rules = default_text_rules(proto) or "keep"
    return proto if isinstance(rules, str) else add_text_rules(proto, rules)


def _word_piece(
    pieces: Sequence[str], own: WordPieceRules | None, rules: AnyRules
) -> bytes:
    if isinstance(rules, TextRules):
        raise ValueError(
            "The vocabulary is WordPiece, but `TextRules` are for SentencePiece. "
            f"Received: text_rules={rules}. Pass `WordPieceRules`."
        )
    if isinstance(rules, str):
        rules = own or auto_rules(pieces)
    return write_word_piece(pieces, rules)
