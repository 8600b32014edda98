"""The text programs as TensorFlow graphs, with the same ids as in Python."""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_albert.text.packing import SpecialIds
from keras_albert.text.reading import COLUMN_NAMES
from keras_albert.text.tokenizer import word_piece
from keras_albert.text.tokenizer.sentencepiece_file import (
    SPECIAL_TOKENS,
    graph_vocabulary,
    parse_vocabulary,
)
from keras_albert.text.tokenizer.text_rules import BLANKS
from keras_albert.text.tokenizer.vocabularies import (
    Vocabulary,
    WordPieceVocabulary,
    open_vocabulary,
)
from keras_albert.types import Tensor, Truncation

# All code points but surrogates, as in Python. RE2 is lenient if the range includes
# surrogates.
_UTF8 = r"[\x{0}-\x{D7FF}\x{E000}-\x{10FFFF}]*"

_UNKNOWN = SPECIAL_TOKENS.index("<unk>")


class GraphTokenizer(tf_text.SentencepieceTokenizer):
    """tensorflow-text's tokenizer on `graph_vocabulary`."""

    def __init__(self, proto: bytes, out_type: Any = "int32") -> None:
        # If ids are strings, an unknown piece is its text.
        self._merges = out_type != "string"
        super().__init__(graph_vocabulary(proto, with_bytes=self._merges), out_type)
        self._size = len(parse_vocabulary(proto).pieces)

    def tokenize(self, texts: Any) -> Any:
        """Split texts of any shape into ids; see `tf_text.SentencepieceTokenizer`."""
        ids = super().tokenize(texts)
        # Texts of another rank than 1 are tokenized by a call with rank 1.
        return self._merge(ids)[0] if self._merges and ids.shape.rank == 2 else ids

    def tokenize_with_offsets(self, texts: Any) -> tuple[Any, Any, Any]:
        """Split texts into ids, and return where each starts and ends, in bytes."""
        ids, starts, ends = super().tokenize_with_offsets(texts)
        if not self._merges or ids.shape.rank != 2:
            return ids, starts, ends
        ids, is_first, is_last = self._merge(ids)
        starts = tf.ragged.boolean_mask(starts, is_first)
        return ids, starts, tf.ragged.boolean_mask(ends, is_last)

    def _merge(self, ids: Any) -> tuple[Any, Any, Any]:
        """Replace each run of bytes by `<unk>`; mark its first and last byte."""
        is_byte, rows = ids.values >= self._size, ids.value_rowids()
        joins = is_byte[1:] & is_byte[:-1] & (rows[1:] == rows[:-1])
        count = tf.size(is_byte)
        is_first, is_last = (
            ids.with_values(~tf.concat(parts, axis=0)[:count])
            for parts in ([[False], joins], [joins, [False]])
        )
        ids = ids.with_values(tf.where(is_byte, _UNKNOWN, ids.values))
        return tf.ragged.boolean_mask(ids, is_first), is_first, is_last


# In place of a word that is too long; it is in no vocabulary.
_TOO_LONG = "\0"


_MAX_WORD_BYTES = 4 * word_piece.MAX_WORD_LENGTH


class GraphWordPiece(tf.Module):
    """A WordPiece tokenizer of TensorFlow operations, with Python's ids."""

    # The text rules are a table of characters: tensorflow-text's follow another
    # Unicode.

    def __init__(self, proto: bytes, out_type: Any = "int32") -> None:
        super().__init__()
        self._vocabulary = cast("WordPieceVocabulary", open_vocabulary(proto))
        self._out_type = tf.as_dtype(out_type)
        self._table = word_piece.character_table(self._vocabulary.rules)
        never_split = self._vocabulary.rules.never_split
        self._never_split = sorted(never_split, key=len, reverse=True)

    def tokenize(self, texts: Any) -> Any:
        """Split texts into ids: ragged `(rows, ids)`, for one text `(ids,)`."""
        return self.tokenize_with_offsets(texts)[0]

    def tokenize_with_offsets(self, texts: Any) -> tuple[Any, Any, Any]:
        """Split texts into ids, and return where each starts and ends, in bytes."""
        if isinstance(texts, tf.RaggedTensor):
            found = self.tokenize_with_offsets(texts.flat_values)
            return tuple(texts.with_flat_values(part) for part in found)
        texts = tf.convert_to_tensor(texts)
        if texts.shape.rank == 0:
            found = self.tokenize_with_offsets(tf.expand_dims(texts, 0))
            return tuple(part.values for part in found)
        find = self._around_tokens if self._never_split else self._pieces
        ids, starts, ends, rows = find(texts)
        # The last of several pieces of one character has its text.
        following = tf.where(rows[1:] == rows[:-1], starts[1:], ends[:-1])
        ends = tf.concat([tf.minimum(ends[:-1], following), ends[-1:]], axis=0)
        if self._out_type == tf.string:
            ids = tf.gather(tf.constant(self._vocabulary.pieces), ids)
        else:
            ids = tf.cast(ids, self._out_type)
        make, count = tf.RaggedTensor.from_value_rowids, tf.size(texts, tf.int64)
        parts = ids, starts, ends
        return tuple(make(part, rows, count, validate=False) for part in parts)

    def detokenize(self, ids: Any) -> Any:
        """Join rows of ids to texts, as `WordPieceVocabulary.decode`."""
        vocabulary = self._vocabulary
        texts = list(vocabulary.texts)
        for role, token in vocabulary.special_tokens.items():
            if role != "unk_token":
                texts[vocabulary.ids[token]] = ""
        parts = tf.gather(tf.constant(texts), ids)
        joined = tf.strings.reduce_join(parts, axis=-1)
        return tf.strings.regex_replace(joined, "^ ", "")

    def _around_tokens(self, texts: Any) -> tuple[Any, Any, Any, Any]:
        """Tokenize around the tokens that are never split."""
        pattern = "|".join(map(re.escape, self._never_split))
        # The operation ends at a NUL. All control characters are dropped later.
        texts = tf.strings.regex_replace(texts, r"\x00", "\x01")
        parts, firsts, _ = tf_text.regex_split_with_offsets(texts, pattern, pattern)
        tokens = tf.constant(self._never_split)
        is_token = parts.values[:, None] == tokens
        known = tf.constant([self._vocabulary.ids[t] for t in self._never_split])
        own = tf.where(is_token, known, -1)
        own = tf.reduce_max(own, axis=1)
        # One piece for each token; `_TOO_LONG` is one piece.
        ids, starts, ends, part = self._pieces(
            tf.where(own >= 0, "a" * (word_piece.MAX_WORD_LENGTH + 1), parts.values)
        )
        is_own = tf.gather(own, part) >= 0
        ids = tf.where(is_own, tf.gather(own, part), ids)
        lengths = tf.cast(tf.strings.length(parts.values), tf.int64)
        ends = tf.where(is_own, tf.gather(lengths, part), ends)
        shift = tf.gather(firsts.values, part)
        return ids, starts + shift, ends + shift, tf.gather(parts.value_rowids(), part)

    def _pieces(self, texts: Any) -> tuple[Any, Any, Any, Any]:
        """Return all ids, their first bytes and ends in the texts, and their texts."""
        table = self._table
        codes, first_bytes = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
        rows, code, first = codes.value_rowids(), codes.values, first_bytes.values
        page = tf.gather(tf.constant(table.pages), code // 256)
        entry = tf.gather(tf.constant(table.entries), page * 256 + code % 256)
        kind = tf.gather(tf.constant(table.kinds), entry)
        last = first + _byte_lengths(code)

        is_kept = kind != word_piece.DROPPED
        rows, code, entry, kind, first, last = (
            tf.boolean_mask(x, is_kept) for x in (rows, code, entry, kind, first, last)
        )
        # A character goes on a word if it and the one before it are inside words.
        goes_on = (kind[1:] == word_piece.IN_WORD) & (kind[:-1] == word_piece.IN_WORD)
        goes_on &= rows[1:] == rows[:-1]
        goes_on = tf.concat([[False], goes_on], axis=0)[: tf.size(kind)]
        is_inked = kind != word_piece.SPACE
        rows, code, entry, first, last, goes_on = (
            tf.boolean_mask(x, is_inked)
            for x in (rows, code, entry, first, last, goes_on)
        )
        word = tf.cumsum(tf.cast(~goes_on, tf.int64)) - 1
        row_of_word = tf.boolean_mask(rows, ~goes_on)
        number = tf.size(row_of_word, tf.int64)

        # From characters to those that replace them, with `source` back to these.
        length = tf.gather(tf.constant(table.lengths), entry)
        start = tf.gather(
            tf.constant(np.cumsum(table.lengths) - table.lengths, tf.int32), entry
        )
        source = tf.repeat(tf.range(tf.size(entry)), length)
        place = tf.ragged.range(start, start + length).values
        new = tf.gather(tf.constant(table.outputs), place)
        new = tf.where(new == 0, tf.gather(code, source), new)
        words = tf.RaggedTensor.from_value_rowids(
            new, tf.gather(word, source), number, validate=False
        )
        strings = tf.strings.unicode_encode(words, "UTF-8")
        sizes = words.row_lengths()
        strings = tf.where(sizes > word_piece.MAX_WORD_LENGTH, _TOO_LONG, strings)
        model = np.frombuffer(_model(self._vocabulary.proto), "u1")
        splitter = tf_text.FastWordpieceTokenizer(
            model_buffer=tf.constant(model), token_out_type=tf.int32
        )
        ids, starts, ends = splitter.tokenize_with_offsets(strings)
        owner = ids.value_rowids()
        ids, starts, ends = ids.values, starts.values, ends.values

        # From bytes in words to the new characters, and to bytes in texts.
        byte_starts = tf.cumsum(_byte_lengths(new), exclusive=True)
        word_starts = words.row_starts()
        base = tf.gather(tf.concat([byte_starts, [0]], axis=0), word_starts)
        base = tf.gather(base, owner)
        is_whole = ids == self._vocabulary.unknown_id
        start, end = (
            tf.searchsorted(
                byte_starts, base + tf.cast(each, tf.int64), out_type=tf.int64
            )
            for each in (starts, ends)
        )
        start = tf.where(is_whole, tf.gather(word_starts, owner), start)
        end = tf.where(is_whole, tf.gather(word_starts + sizes, owner), end)
        first = tf.gather(first, tf.gather(source, start))
        last = tf.gather(last, tf.gather(source, end - 1))
        return ids, first, last, tf.gather(row_of_word, owner)


def _byte_lengths(codes: Any) -> Any:
    """Return the number of bytes of each character in UTF-8, int64."""
    limits = tf.constant([0x80, 0x800, 0x10000])
    longer = tf.cast(codes[:, None] >= limits, tf.int64)
    return 1 + tf.reduce_sum(longer, axis=1)


@functools.lru_cache(maxsize=4)
def _model(proto: bytes) -> bytes:
    vocabulary: Any = open_vocabulary(proto)
    unknown = vocabulary.special_tokens["unk_token"]
    # The words are split already, and ids are not joined to texts.
    how = (_MAX_WORD_BYTES, word_piece.CONTINUES, unknown, True, False)
    return bytes(tf_text.build_fast_wordpiece_model(list(vocabulary.pieces), *how))


def graph_tokenizer(
    vocabulary: Vocabulary, out_type: Any = "int32"
) -> GraphTokenizer | GraphWordPiece:
    """Create the tokenizer of a TensorFlow graph."""
    is_word_piece = isinstance(vocabulary, WordPieceVocabulary)
    kind = GraphWordPiece if is_word_piece else GraphTokenizer
    return kind(vocabulary.proto, out_type)


def check_utf8(texts: Any, name: str = "texts") -> Any:
    """Return texts after a check in the graph that they are UTF-8."""
    texts = tf.convert_to_tensor(texts, tf.string)
    is_text = tf.strings.regex_full_match(texts, _UTF8)
    # One more, since `argmin` refuses an empty batch.
    flat = tf.reshape(tf.cast(is_text, tf.int32), [-1])
    row = tf.argmin(tf.concat([flat, [1]], axis=0))
    remedy = (
        f" of {name} is not UTF-8. Decode it with the encoding it was written in, "
        'as in `tf.strings.unicode_transcode(texts, "LATIN1", "UTF-8")`.'
    )
    message = tf.strings.join(["row ", tf.strings.as_string(row), remedy])
    check = tf.debugging.Assert(tf.reduce_all(is_text), [message])
    # Makes later operations wait for the check.
    with tf.control_dependencies([check]):
        return tf.identity(texts)


def tokenize_in_graph(
    sentence_piece: Any, texts: Any, length: int | None, padding: int
) -> Any:
    """Tokenize in a TensorFlow graph: ragged ids, or dense with `length`."""
    with tf.device("cpu"):  # string tensors are on the CPU only
        texts = tf.convert_to_tensor(texts, tf.string)
        is_one = texts.shape.rank == 0
        rows = check_utf8(tf.expand_dims(texts, 0) if is_one else texts)
        ids = sentence_piece.tokenize(rows)
        if length is not None:
            ids = ids.to_tensor(padding, shape=(None, length))
    return ids[0] if is_one else ids


def detokenize_in_graph(sentence_piece: Any, ids: Any) -> Any:
    """Convert ids to texts in a TensorFlow graph."""
    if not tf.is_tensor(ids):
        ids = tf.ragged.constant(ids)
    ids = tf.cast(ids, tf.int32)
    if ids.shape.rank == 0:
        ids = tf.expand_dims(ids, 0)
    return sentence_piece.detokenize(ids)


def graph_tokens_with_offsets(sentence_piece: Any, inputs: Any) -> tuple[Any, Any, Any]:
    """Tokenize in a TensorFlow graph, with offsets as in `trim_blanks`."""
    with tf.device("cpu"):  # string tensors are on the CPU only
        texts = tf.convert_to_tensor(inputs)
        scalar = texts.shape.rank == 0
        if scalar:
            texts = tf.expand_dims(texts, 0)
        ids, starts, ends = sentence_piece.tokenize_with_offsets(texts)
        starts, ends = _graph_character_offsets(texts, starts, ends)
    return (ids.values, starts.values, ends.values) if scalar else (ids, starts, ends)


def find_characters(texts: Any, rows: Any, *places: Any) -> tuple[Any, ...]:
    """Return the characters of texts, and which of all are at some bytes of `rows`."""
    codes, first_bytes = tf.strings.unicode_decode_with_offsets(texts, "UTF-8")
    # Offsets into all rows, concatenated, so that one sorted search covers them.
    lengths = tf.cast(tf.strings.length(texts), "int64")
    row_bytes = tf.math.cumsum(lengths, exclusive=True)
    first_bytes = first_bytes.values + tf.gather(row_bytes, first_bytes.value_rowids())
    base = tf.gather(row_bytes, rows)
    found = (tf.searchsorted(first_bytes, x + base, out_type="int64") for x in places)
    return codes, *found


def _graph_character_offsets(texts: Any, starts: Any, ends: Any) -> tuple[Any, Any]:
    row_of_piece = starts.value_rowids()
    places = starts.values, ends.values
    codes, start, end = find_characters(texts, row_of_piece, *places)
    blanks = tf.constant(sorted(map(ord, BLANKS)), "int32")
    nearest = tf.minimum(tf.searchsorted(blanks, codes.values), len(BLANKS) - 1)
    inked = tf.where(tf.gather(blanks, nearest) != codes.values)[:, 0]
    # The first visible character at or after each start, or the end of the piece if
    # that is before it (the texts may end in blanks).
    inked = tf.concat([inked, [tf.size(codes.values, out_type="int64")]], axis=0)
    start = tf.gather(inked, tf.searchsorted(inked, start))
    start = tf.minimum(start, end)
    row_characters = tf.gather(codes.row_splits, row_of_piece)
    return tuple(
        starts.with_values(tf.cast(position - row_characters, "int32"))
        for position in (start, end)
    )


def pack_texts(
    tokenize: Callable[[Tensor], Tensor], columns: tuple[Tensor, ...], *how: Any
) -> dict[str, Tensor]:
    """Tokenize and pack string tensors of rank 0 or 1; see `pack_in_graph`."""
    is_one = columns[0].shape.rank == 0
    if is_one:
        columns = tuple(tf.expand_dims(column, 0) for column in columns)
    checked = map(check_utf8, columns, COLUMN_NAMES[len(columns)])
    packed = pack_in_graph(tuple(map(tokenize, checked)), *how)
    return {name: rows[0] for name, rows in packed.items()} if is_one else packed


def pack_in_graph(
    segments: tuple[Tensor, ...],
    special: SpecialIds,
    max_length: int,
    truncate: Truncation,
    pad_to: int | Sequence[int] | None = None,
) -> dict[str, Tensor]:
    """Truncate and pack texts like `EncodedTexts`, with TensorFlow operations."""
    # `pad_to` is a length, rising lengths to choose from, or `None`, the longest row.
    is_fair = truncate == "round_robin"
    kind = tf_text.RoundRobinTrimmer if is_fair else tf_text.WaterfallTrimmer
    trimmed = kind(max_length - len(segments) - 1).trim(list(segments))
    return join_in_graph(tuple(trimmed), special, pad_to)


def join_in_graph(
    segments: tuple[Tensor, ...],
    special: SpecialIds,
    pad_to: int | Sequence[int] | None = None,
) -> dict[str, Tensor]:
    """Join segments of any length to rows; see `pack_in_graph`."""
    token_ids, segment_ids = tf_text.combine_segments(
        list(segments), start_of_sequence_id=special.cls, end_of_segment_id=special.sep
    )
    longest = tf.cast(token_ids.bounding_shape(axis=1), tf.int32)
    if isinstance(pad_to, int):
        shape: Any = [None, pad_to]
    elif pad_to is None:
        # An empty batch has no longest row, but a model needs at least one token.
        shape = tf.stack([-1, tf.maximum(longest, 1)])
    else:
        buckets = tf.constant(list(pad_to), tf.int32)
        place = tf.searchsorted(buckets, longest[None])[0]
        shape = tf.stack([-1, buckets[place]])
    padding_mask = tf.ones_like(token_ids, dtype=tf.int32)
    return {
        "token_ids": token_ids.to_tensor(special.pad, shape=shape),
        "segment_ids": segment_ids.to_tensor(0, shape=shape),
        "padding_mask": padding_mask.to_tensor(0, shape=shape),
    }
