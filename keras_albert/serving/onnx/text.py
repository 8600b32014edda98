"""Tokenizing and packing texts in an ONNX graph."""

import base64
from dataclasses import dataclass, replace
from typing import Any

from keras_albert.serving.onnx.builder import OnnxBuilder
from keras_albert.serving.onnx.word_piece import OnnxWordPiece
from keras_albert.text.tokenizer.sentencepiece_file import (
    SPECIAL_TOKENS,
    graph_vocabulary,
)
from keras_albert.text.tokenizer.vocabularies import Vocabulary, WordPieceVocabulary


@dataclass(frozen=True)
class Pieces:
    """The ids of texts, concatenated with those of other texts; all int64."""

    ids: Any
    # Of each text: where its ids begin, and their number.
    begins: Any
    lengths: Any
    # Of each id: the byte of its text at which it begins, and the one after its last,
    # `None` if that is where the next one begins.
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
        texts = self.builder.join(columns, 0) if len(columns) > 1 else columns[0]
        vocabulary = self.preprocessor.tokenizer.vocabulary
        is_words = isinstance(vocabulary, WordPieceVocabulary)
        tokenize = self._word_piece if is_words else self._sentence_piece
        return self.split(tokenize(texts, vocabulary), *columns)

    def _word_piece(self, texts: Any, vocabulary: Vocabulary) -> Pieces:
        op = self.op
        ids, starts, ends, rows = OnnxWordPiece(self, vocabulary).tokenize(texts)
        lengths = op.Expand([0], self.builder.size(texts, 0))
        ones = op.Add(op.Mul(rows, 0), 1)
        lengths = op.ScatterElements(lengths, rows, ones, reduction="add")
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
        is_behind = op.Concat([0], builder.cast(is_byte, "int64"), axis=0)
        is_behind = builder.cast(op.Slice(is_behind, [0], [-1]), "bool")
        is_kept = op.Or(op.Not(op.And(is_byte, is_behind)), is_first)
        kept = op.Concat(builder.cast(is_kept, "int64"), [0], axis=0)
        starts = op.Gather(op.CumSum(kept, 0, exclusive=1), starts)
        ids = op.Where(is_byte, SPECIAL_TOKENS.index("<unk>"), ids)
        ids, places = (op.Compress(x, is_kept, axis=0) for x in (ids, places))
        return ids, starts, places

    def split(self, pieces: Pieces, *columns: Any) -> list[Pieces]:
        """Split the pieces of all texts into those of each column."""
        op = self.op
        found = []
        first: Any = [0]
        for column in columns:
            last = op.Add(first, self.builder.size(column, 0))
            begins, lengths = (
                op.Slice(values, first, last)
                for values in (pieces.begins, pieces.lengths)
            )
            found.append(replace(pieces, begins=begins, lengths=lengths))
            first = last
        return found

    def positions(self, values: Any) -> Any:
        """Return the indices of values `(n,)`."""
        return self.op.Range(0, self.op.Size(values), 1)

    def numbers(self, begins: Any, length: Any) -> Any:
        """Return the group of each of `length` items; groups, maybe empty, `begin`."""
        op = self.op
        ones = op.Add(op.Mul(begins, 0), 1)
        # One more place, for empty groups at the end.
        places = op.Expand([0], op.Add(length, 1))
        marks = op.ScatterElements(places, begins, ones, reduction="add")
        return op.Sub(op.Slice(op.CumSum(marks, 0), [0], [-1]), 1)

    def owners(self, pieces: Pieces) -> Any:
        """Return the text of each id; `pieces` must be those of all texts."""
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
            if getattr(self.preprocessor, "truncate", "round_robin") == "waterfall":
                first = op.Min(first, budget)
            else:
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
        for segment, (column, (first, last)) in enumerate(
            zip(pieces, bounds, strict=True)
        ):
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
