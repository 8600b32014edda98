"""Splitting, tokenizing and packing texts in an ONNX graph."""

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from keras_albert.exports.onnx.builder import TABLE_DOMAIN, OnnxBuilder
from keras_albert.exports.shared import SPACES, word_pattern
from keras_albert.text.tokenizer import word_piece
from keras_albert.text.tokenizer.sentencepiece_file import (
    SPECIAL_TOKENS,
    graph_vocabulary,
)
from keras_albert.text.tokenizer.text_rules import BLANKS, character_class
from keras_albert.text.tokenizer.vocabularies import Vocabulary, WordPieceVocabulary


@dataclass(frozen=True)
class Pieces:
    """The concatenated ids of texts, all int64."""

    ids: Any
    # Where the ids of each text start, and their number.
    begins: Any
    lengths: Any
    # The byte of its text at which each id starts, and the one after its last, `None`
    # if that is where the next one starts.
    places: Any = None
    ends: Any = None


class OnnxText:
    """Tokenization and packing for one task."""

    def __init__(self, builder: OnnxBuilder, preprocessor: Any) -> None:
        self.builder = builder
        self.op = builder.op
        self.preprocessor = preprocessor
        self.special = preprocessor.special_ids

    def tokenize(self, *columns: Any) -> list[Pieces]:
        """Tokenize columns of texts at once."""
        texts = self.op.Concat(*columns, axis=0)
        vocabulary = self.preprocessor.tokenizer.vocabulary
        is_words = isinstance(vocabulary, WordPieceVocabulary)
        tokenize = self._word_piece if is_words else self._sentence_piece
        return self.split(tokenize(texts, vocabulary), *columns)

    def _word_piece(self, texts: Any, vocabulary: Vocabulary) -> Pieces:
        op = self.op
        ids, starts, ends, rows = OnnxWordPiece(self, vocabulary).tokenize(texts)
        lengths = self.count(rows, texts)
        begins = op.CumSum(lengths, 0, exclusive=1)
        return Pieces(ids, begins, lengths, starts, ends)

    def _sentence_piece(self, texts: Any, vocabulary: Vocabulary) -> Pieces:
        op = self.op
        proto = graph_vocabulary(vocabulary.proto)
        model = base64.b64encode(proto).decode()
        # No sampling, no special tokens, not reversed, no fairseq ids.
        settings = ([0], [0.0], [False], [False], [False], [False])
        found = self.builder.texts.SentencepieceTokenizer(
            texts, *settings, model=model, _outputs=3
        )
        dtypes = ("int32", "int64", "int32")
        ids, starts, places = map(self.builder.typed, found, dtypes)
        ids, places = (self.builder.cast(x, "int64") for x in (ids, places))
        # Without texts there are no starts, either.
        starts = op.Concat(starts, op.Mul(self.builder.size(starts, 0), 0), axis=0)
        count = self.builder.size(texts, 0)
        starts = op.Slice(starts, [0], op.Add(count, 1))
        ids, starts, places = self._merge_bytes(ids, starts, places)
        begins = op.Slice(starts, [0], count)
        ends = op.Slice(starts, [1], op.Add(count, 1))
        return Pieces(ids, begins, op.Sub(ends, begins), places)

    def _merge_bytes(self, ids: Any, starts: Any, places: Any) -> tuple[Any, Any, Any]:
        """Replace each run of bytes by `<unk>`; see `graph_vocabulary`."""
        op, builder = self.op, self.builder
        is_byte = op.GreaterOrEqual(ids, self.preprocessor.tokenizer.vocabulary_size())
        marks = op.Expand([0], op.Add(builder.size(ids, 0), 1))
        ones = op.Add(op.Mul(starts, 0), 1)
        marks = op.ScatterElements(marks, starts, ones, reduction="add")
        is_first = builder.cast(op.Slice(marks, [0], [-1]), "bool")
        is_behind = self.previous(is_byte, False)
        is_kept = op.Or(op.Not(op.And(is_byte, is_behind)), is_first)
        kept = op.Concat(builder.cast(is_kept, "int64"), [0], axis=0)
        starts = op.Gather(op.CumSum(kept, 0, exclusive=1), starts)
        ids = op.Where(is_byte, SPECIAL_TOKENS.index("<unk>"), ids)
        ids, places = (op.Compress(x, is_kept, axis=0) for x in (ids, places))
        return ids, starts, places

    def split(self, pieces: Pieces, *columns: Any) -> list[Pieces]:
        """Split the pieces of all texts by columns."""
        op = self.op
        found = []
        first: Any = [0]
        for column in columns:
            last = op.Add(first, self.builder.size(column, 0))
            both = pieces.begins, pieces.lengths
            begins, lengths = (op.Slice(values, first, last) for values in both)
            found.append(replace(pieces, begins=begins, lengths=lengths))
            first = last
        return found

    def count(self, rows: Any, column: Any) -> Any:
        """Count the items of each text."""
        return self.reduce(self.op.Add(self.op.Mul(rows, 0), 1), rows, column)

    def reduce(
        self, values: Any, rows: Any, column: Any, how: str = "add", start: Any = 0
    ) -> Any:
        """Add up the values of each text, or return the `"max"` or `"min"` of them."""
        op = self.op
        start = op.Expand(op.CastLike(start, values), self.builder.size(column, 0))
        return op.ScatterElements(start, rows, values, reduction=how)

    def previous(self, values: Any, first: Any) -> Any:
        """Return the value before each one, and `first` for the first."""
        first = self.op.Reshape(self.op.CastLike(first, values), [1])
        return self.op.Slice(self.op.Concat(first, values, axis=0), [0], [-1])

    def following(self, values: Any, last: Any) -> Any:
        """Return the value after each one, and `last` for the last."""
        last = self.op.Reshape(self.op.CastLike(last, values), [1])
        return self.op.Slice(self.op.Concat(values, last, axis=0), [1], [2**31])

    def positions(self, values: Any) -> Any:
        """Return the indices of values `(n,)`."""
        return self.op.Range(0, self.op.Size(values), 1)

    def numbers(self, begins: Any, length: Any) -> Any:
        """Return the group of each of `length` items, by the first item of each."""
        op = self.op
        ones = op.Add(op.Mul(begins, 0), 1)
        # One more place, for empty groups at the end.
        places = op.Expand([0], op.Add(length, 1))
        marks = op.ScatterElements(places, begins, ones, reduction="add")
        return op.Sub(op.Slice(op.CumSum(marks, 0), [0], [-1]), 1)

    def owners(self, pieces: Pieces) -> Any:
        """Return the text of each id; `pieces` are of all texts."""
        return self.numbers(pieces.begins, self.builder.size(pieces.ids, 0))

    def dense(self, values: Any, rows: Any, counts: Any, nothing: Any) -> Any:
        """Arrange values in rows, padded to the longest."""
        op = self.op
        most = op.ReduceMax(op.Concat(counts, [0], axis=0), keepdims=1)
        shape = self.builder.integers(self.builder.size(counts, 0), most)
        first = op.Gather(op.CumSum(counts, 0, exclusive=1), rows)
        slot = op.Sub(self.positions(rows), first)
        at = op.Concat(op.Unsqueeze(rows, [1]), op.Unsqueeze(slot, [1]), axis=1)
        return op.ScatterND(op.Expand(nothing, shape), at, values)

    def truncate(self, pieces: list[Pieces]) -> list[Pieces]:
        """Truncate one or two texts to fit a row; see `truncated_lengths`."""
        op = self.op
        budget = self.preprocessor.max_length - len(pieces) - 1
        if len(pieces) == 1:
            lengths = [op.Min(pieces[0].lengths, budget)]
        else:
            first, second = (column.lengths for column in pieces)
            share: Any = budget
            if getattr(self.preprocessor, "truncate", "round_robin") != "waterfall":
                share = op.Max((budget + 1) // 2, op.Sub(budget, second))
            first = op.Min(first, share)
            lengths = [first, op.Min(second, op.Sub(budget, first))]
        return [
            replace(column, lengths=kept)
            for column, kept in zip(pieces, lengths, strict=True)
        ]

    def pack(self, pieces: list[Pieces]) -> dict[str, Any]:
        """Pack one or two texts that fit into rows, padded to the longest."""
        op = self.op
        bounds = []
        begin: Any = op.Add(op.Mul(op.Unsqueeze(pieces[0].lengths, [1]), 0), 1)
        for column in pieces:
            end = op.Add(begin, op.Unsqueeze(column.lengths, [1]))
            bounds.append((begin, end))
            begin = op.Add(end, 1)
        # The length is at least one, even without rows.
        longest = op.ReduceMax(op.Concat(op.Squeeze(begin, [1]), [1], axis=0))
        place = op.Range(0, op.Squeeze(longest), 1)
        is_real = op.Less(place, begin)
        segments = op.Mul(op.Add(begin, place), 0)
        ids = op.Where(op.Equal(place, 0), self.special.cls, self.special.pad)
        columns = zip(pieces, bounds, strict=True)
        for segment, (column, (first, last)) in enumerate(columns):
            is_inside = op.And(op.GreaterOrEqual(place, first), op.Less(place, last))
            shift = op.Sub(op.Unsqueeze(column.begins, [1]), first)
            source = op.Where(is_inside, op.Add(place, shift), 0)
            # An extra id, because there may be none.
            found = op.Gather(op.Concat(column.ids, [0], axis=0), source)
            ids = op.Where(is_inside, found, ids)
            ids = op.Where(op.Equal(place, last), self.special.sep, ids)
            if segment:
                is_second = op.And(op.GreaterOrEqual(place, first), is_real)
                segments = op.Where(is_second, segment, segments)
        mask = self.builder.cast(is_real, "int64")
        return {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}


class OnnxCharacters:
    """The concatenated characters of texts."""

    def __init__(self, texts: OnnxText, column: Any) -> None:
        op = self.op = texts.op
        self.texts = texts
        found = split(texts, column, "(?s).")
        self._characters, begins, ends, rows, self._firsts = found
        # An empty text has no characters and keeps the length 0.
        self.byte_lengths = texts.reduce(ends, rows, column, "max")
        # One more position for each text: the one after its last byte.
        spaces = op.Add(self.byte_lengths, 1)
        self._bases = op.CumSum(spaces, 0, exclusive=1)
        total = op.ReduceSum(spaces, keepdims=1)
        at = op.Add(op.Gather(self._bases, rows), begins)
        zeros, ones = op.Expand([0], op.Add(total, 1)), op.Add(op.Mul(at, 0), 1)
        marks = op.ScatterElements(zeros, at, ones)
        # The number of characters that start before each byte of all texts.
        self._before = op.CumSum(marks, 0, exclusive=1)

    def at_bytes(self, rows: Any, places: Any) -> Any:
        """Return the characters, counted over all texts, at byte positions in texts."""
        op = self.op
        return op.Gather(self._before, op.Add(op.Gather(self._bases, rows), places))

    def in_text(self, rows: Any, characters: Any) -> Any:
        """Convert characters to int32 positions in their texts."""
        op = self.op
        found = op.Sub(characters, op.Gather(self._firsts, rows))
        return self.texts.builder.cast(found, "int32")

    def spans(self, pieces: Pieces) -> tuple[Any, Any]:
        """Return pieces' first characters in all texts, and those after the last."""
        op, builder = self.op, self.texts.builder
        rows = self.texts.owners(pieces)
        start = self.at_bytes(rows, pieces.places)
        # In SentencePiece, a piece ends where the next one starts, or with its text.
        final = op.Add(pieces.begins, op.Sub(pieces.lengths, 1))
        is_final = op.Equal(self.texts.positions(pieces.ids), op.Gather(final, rows))
        behind = self.texts.following(pieces.places, 0)
        behind = op.Where(is_final, op.Gather(self.byte_lengths, rows), behind)
        end = self.at_bytes(rows, behind if pieces.ends is None else pieces.ends)
        blank = character_class(map(ord, BLANKS))
        is_inked = op.Not(op.RegexFullMatch(self._characters, pattern=blank))
        inked = op.Squeeze(op.NonZero(is_inked), [0])
        ones = builder.cast(is_inked, "int64")
        before = op.CumSum(op.Concat(ones, [0], axis=0), 0, exclusive=1)
        following = op.Concat(inked, op.Shape(self._characters), axis=0)
        first = op.Min(op.Gather(following, op.Gather(before, start)), end)
        earlier = op.Concat([-1], inked, axis=0)
        last = op.Add(op.Gather(earlier, op.Gather(before, end)), 1)
        return first, op.Max(last, first)


def split(texts: OnnxText, column: Any, pattern: str) -> tuple[Any, ...]:
    """Split texts into the matches of a pattern of RE2 and the parts between them."""
    # Returns the parts, their first bytes, the bytes after their last, their texts, and
    # the number of each text's first part.
    op, builder = texts.op, texts.builder
    parts, begins, ends, bounds = _split_all(texts, column, pattern)
    if not builder.checks_patterns:
        builder.checks_patterns = True
        begins = op.Add(begins, _check_operations(texts))
    firsts = op.Slice(bounds, [0], builder.size(column, 0))
    rows = texts.numbers(firsts, builder.size(begins, 0))
    return parts, begins, ends, rows, firsts


def _split_all(texts: OnnxText, column: Any, pattern: str) -> Iterable[Any]:
    group = texts.op.Constant(value_strings=[f"({pattern})"])
    operation = texts.builder.texts.StringRegexSplitWithOffsets
    found = operation(column, group, group, _outputs=4)
    return map(texts.builder.typed, found, ("string", "int64", "int64", "int64"))


def _check_operations(texts: OnnxText) -> Any:
    """Return 0, or fail in a process where patterns match nothing; see `export`."""
    # Each text would be one unknown word, and have an answer.
    op = texts.op
    parts, *_ = _split_all(texts, op.Constant(value_strings=["a b"]), " ")
    zero = op.Gather([0], op.Sub(3, texts.builder.size(parts, 0)))
    # The only part of the message that a graph may choose.
    zero.producer().name = "import_onnxruntime_extensions_before_TensorFlow"
    return zero


def split_words(texts: OnnxText, column: Any) -> tuple[Any, ...]:
    """Return words, their first bytes, the bytes after their last, and their texts."""
    parts, *places, _ = split(texts, column, word_pattern())
    is_space = texts.op.RegexFullMatch(parts, pattern=f"[{SPACES}]+")
    is_word = texts.op.Not(is_space)
    return tuple(texts.op.Compress(x, is_word, axis=0) for x in (parts, *places))


class OnnxWordPiece:
    """The tokenizer of a WordPiece vocabulary, as operations of a graph."""

    # As in TensorFlow, the text rules are a table of characters (see
    # `character_table`).

    def __init__(self, texts: Any, vocabulary: Any) -> None:
        self.texts = texts
        self.op, self.builder = texts.op, texts.builder
        self.vocabulary = vocabulary
        self.builder.graph.opset_imports[TABLE_DOMAIN] = 2
        self.unknown = vocabulary.special_tokens["unk_token"]
        self._never_split = sorted(vocabulary.rules.never_split, key=len, reverse=True)

    def tokenize(self, column: Any) -> tuple[Any, Any, Any, Any]:
        """Return all ids, int64; where each starts and ends in bytes; and its text."""
        op = self.op
        if not self._never_split:
            return self._without_overlap(*self._pieces(column))
        pattern = "|".join(map(re.escape, self._never_split))
        parts, begins, ends, rows, _ = split(self.texts, column, pattern)
        known = [self.vocabulary.ids[token] for token in self._never_split]
        own = self._look_up(parts, self._never_split, known, -1)
        # A word that is too long is one piece.
        one = self.builder.string("a" * (word_piece.MAX_WORD_LENGTH + 1))
        parts = op.Where(op.GreaterOrEqual(own, 0), one, parts)
        ids, starts, stops, part = self._pieces(parts)
        first, own = op.Gather(begins, part), op.Gather(own, part)
        is_own = op.GreaterOrEqual(own, 0)
        stops = op.Where(is_own, op.Gather(ends, part), op.Add(stops, first))
        return self._without_overlap(
            op.Where(is_own, own, ids),
            op.Add(starts, first),
            stops,
            op.Gather(rows, part),
        )

    def _without_overlap(self, *pieces: Any) -> tuple[Any, Any, Any, Any]:
        """Give the text of a character to the last of its pieces."""
        op = self.op
        ids, starts, ends, rows = pieces
        is_same = op.Equal(self.texts.following(rows, -1), rows)
        next_start = self.texts.following(starts, -1)
        return ids, starts, op.Where(is_same, op.Min(ends, next_start), ends), rows

    def _look_up(
        self, strings: Any, keys: list[str], values: list[int], default: int
    ) -> Any:
        """Map strings to integers."""
        return self.builder.tables.LabelEncoder(
            strings, keys_strings=keys, values_int64s=values, default_int64=default
        )

    def _is_of(self, characters: Any, *kinds: int) -> Any:
        """Return whether characters are of some kinds."""
        codes = word_piece.is_of_kind(
            word_piece.character_table(self.vocabulary.rules), *kinds
        )
        codes = codes[(codes < 0xD800) | (codes > 0xDFFF)]
        pattern = f"(?s){character_class(codes)}"
        return self.op.RegexFullMatch(characters, pattern=pattern)

    def _pieces(self, column: Any) -> tuple[Any, Any, Any, Any]:
        op, builder, texts = self.op, self.builder, self.texts
        characters, begins, ends, rows, _ = split(texts, column, "(?s).")
        is_kept = op.Not(self._is_of(characters, word_piece.DROPPED))
        characters, begins, ends, rows = (
            op.Compress(x, is_kept, axis=0) for x in (characters, begins, ends, rows)
        )
        is_space = self._is_of(characters, word_piece.SPACE)
        is_inside = op.Not(op.Or(is_space, self._is_of(characters, word_piece.ALONE)))
        # A character goes on a word if it and the one before it are inside words.
        goes_on = op.And(is_inside, texts.previous(is_inside, False))
        goes_on = op.And(goes_on, op.Equal(rows, texts.previous(rows, -1)))
        is_inked = op.Not(is_space)
        characters, begins, ends, rows, goes_on = (
            op.Compress(x, is_inked, axis=0)
            for x in (characters, begins, ends, rows, goes_on)
        )
        opens = op.Not(goes_on)
        word_rows = op.Compress(rows, opens, axis=0)
        firsts = op.Compress(texts.positions(rows), opens, axis=0)

        # New characters, and all words in one string.
        replaced, lengths = self._replaced(characters)
        spaced = op.StringConcat(
            op.Where(opens, builder.string(" "), builder.string("")), replaced
        )
        spaced = op.Concat(op.Constant(value_strings=[""]), spaced, axis=0)
        whole = builder.texts.StringJoin(spaced, op.Constant(value_strings=[""]), [0])
        whole = op.Reshape(builder.typed(whole, "string"), [1])
        words, _ = op.StringSplit(whole, delimiter=" ", _outputs=2)
        # Nothing stands before the first space.
        words = op.Slice(op.Reshape(words, [-1]), [1], [2**31])
        tokens, _, token_begins, _ = builder.texts.WordpieceTokenizer(
            words,
            op.Slice(rows, [0], [0]),
            vocab=json.dumps(self.vocabulary.ids),
            suffix_indicator=word_piece.CONTINUES,
            unknown_token=self.unknown,
            max_input_chars_per_word=word_piece.MAX_WORD_LENGTH,
            _outputs=4,
        )
        tokens = builder.typed(tokens, "string")
        token_begins = builder.typed(token_begins, "int64")
        pieces = list(self.vocabulary.pieces)
        unknown = self.vocabulary.unknown_id
        ids = self._look_up(tokens, pieces, list(range(len(pieces))), unknown)
        word = texts.numbers(token_begins, builder.size(ids, 0))
        # The pieces before an unknown one stay; of the word, only that is a token.
        lasts = op.Sub(texts.following(token_begins, builder.size(ids, 0)), 1)
        is_unknown = op.Equal(op.Gather(ids, op.Gather(lasts, word)), unknown)
        is_one = op.Or(op.Not(is_unknown), op.Equal(ids, unknown))
        ids, word = (op.Compress(x, is_one, axis=0) for x in (ids, word))

        # From new characters to the texts' own.
        new_begins = op.CumSum(lengths, 0, exclusive=1)
        total = op.ReduceSum(lengths, keepdims=1)
        source = texts.numbers(new_begins, total)
        word_begins = op.Gather(new_begins, firsts)
        word_ends = texts.following(word_begins, total)
        sizes = [len(piece.removeprefix(word_piece.CONTINUES)) for piece in pieces]
        size = op.Gather(op.Constant(value_ints=sizes), ids)
        is_whole = op.Equal(ids, unknown)
        base, limit = op.Gather(word_begins, word), op.Gather(word_ends, word)
        size = op.Where(is_whole, op.Sub(limit, base), size)
        start = op.CumSum(size, 0, exclusive=1)
        last = op.Sub(op.Add(start, size), 1)
        starts = op.Gather(begins, op.Gather(source, start))
        ends = op.Gather(ends, op.Gather(source, last))
        return ids, starts, ends, op.Gather(word_rows, word)

    def _replaced(self, characters: Any) -> tuple[Any, Any]:
        """Return the text that replaces each character, and its length."""
        rules = self.vocabulary.rules
        known = {c for piece in self.vocabulary.pieces for c in piece}
        # Stands for all characters that no piece contains.
        unknown = next(c for c in map(chr, range(0xFFFD, 0, -1)) if c not in known)
        values, lengths = {}, {}
        dials = rules.lowercase, bool(rules.strip_accents), rules.split_cjk
        for code, text in enumerate(word_piece.replacements(*dials)):
            new = text.strip(" ")
            # Only the number of characters of an unknown word matters.
            if new and known.issuperset(new):
                values[chr(code)] = new
            elif len(new) > 1:
                values[chr(code)] = unknown * len(new)
            if len(new) > 1:
                lengths[chr(code)] = len(new)
        table = {"keys_strings": [*values], "values_strings": [*values.values()]}
        replaced = self.builder.tables.LabelEncoder(
            characters, **table, default_string=unknown
        )
        if not lengths:
            return replaced, self.op.Expand([1], self.builder.size(characters, 0))
        keys, sizes = list(lengths), list(lengths.values())
        return replaced, self._look_up(characters, keys, sizes, 1)
