"""The ONNX graph of a token classifier."""

from typing import Any

import numpy as np

from keras_albert.exports.onnx.graph import OnnxTask, OnnxWindows
from keras_albert.exports.onnx.text import OnnxCharacters, Pieces, split_words
from keras_albert.exports.shared import entity_tables
from keras_albert.text.tags import OUTSIDE
from keras_albert.text.windows import window_stride


class TokenClassifierGraph(OnnxTask):
    """The graph of an `AlbertTokenClassifier`."""

    def run(self, ids: dict[str, Any]) -> Any:
        sequence = self.encode(ids)
        return self.builder.dense(self.task.output_dense, sequence, keep_float=True)

    def transformers_outputs(self, ids: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        return {"logits": (self.run(ids), "batch", "length", self.task.num_classes)}

    def answer_tokens(self, outputs: Any) -> None:
        axes = ("batch", "length")
        probabilities = self.op.Softmax(outputs, axis=-1)
        score, index = self.largest(probabilities)
        for name, scores in (("logits", outputs), ("probabilities", probabilities)):
            self.builder.output(name, scores, *axes, self.task.num_classes)
        self.builder.output("score", score, *axes)
        self.builder.output("index", index, *axes)

    def answer_texts(self, *columns: Any) -> None:
        op, builder, texts = self.op, self.builder, self.texts
        words, starts, ends, rows = split_words(texts, columns[0])
        (pieces,) = texts.tokenize(words)
        # A word without pieces neither splits nor starts an entity.
        is_seen = op.Greater(pieces.lengths, 0)
        scores = op.Softmax(self._score_words(pieces, rows, columns[0]), axis=-1)
        starts, ends, rows = (
            op.Compress(x, is_seen, axis=0) for x in (starts, ends, rows)
        )
        score, tags = self.largest(op.Compress(scores, is_seen, axis=0))

        names = self.task.class_names
        labels, joins = entity_tables(names)
        tags = builder.cast(tags, "int64")
        inside = builder.constant([name != OUTSIDE for name in names], "is_inside")
        is_inside = op.Gather(inside, tags)
        both = (op.Unsqueeze(x, [1]) for x in self._neighbours(tags))
        table = builder.constant(joins, "joins")
        goes_on = op.GatherND(table, op.Concat(*both, axis=1))
        same = op.Equal(*self._neighbours(rows))
        goes_on = builder.cast(op.And(goes_on, same), "int64")
        # The first word continues no entity, and the last is not continued.
        count = builder.size(tags, 0)
        edge = op.Slice([0], [0], count)
        joined = builder.cast(op.Concat(edge, goes_on, axis=0), "bool")
        follows = builder.cast(op.Concat(goes_on, edge, axis=0), "bool")
        is_start = op.And(is_inside, op.Not(joined))
        is_end = op.And(is_inside, op.Not(follows))

        number = op.Sub(op.CumSum(builder.cast(is_start, "int64"), 0), 1)
        number, score = (op.Compress(x, is_inside, axis=0) for x in (number, score))
        firsts, tags, rows = (
            op.Compress(x, is_start, axis=0) for x in (starts, tags, rows)
        )
        ends = op.Compress(ends, is_end, axis=0)
        zeros = op.Expand([0.0], op.Shape(rows))
        ones = op.Add(op.Mul(score, 0.0), 1.0)
        total, words = (
            op.ScatterElements(zeros, number, x, reduction="add") for x in (score, ones)
        )
        characters = OnnxCharacters(texts, columns[0])
        counts = texts.count(rows, columns[0])
        places = (
            characters.in_text(rows, characters.at_bytes(rows, x))
            for x in (firsts, ends)
        )
        found = (op.Gather(builder.constant(labels, "labels"), tags), *places)
        nowhere = builder.constant(np.int32(0), "nowhere")
        for name, values, filler in zip(
            ("label", "start", "end", "score"),
            (*found, op.Div(total, words)),
            (builder.string(""), nowhere, nowhere, 0.0),
            strict=True,
        ):
            dense = texts.dense(values, rows, counts, filler)
            builder.output(name, dense, "batch", "most")
        builder.output("count", builder.cast(counts, "int32"), "batch")

    def _neighbours(self, values: Any) -> tuple[Any, Any]:
        """Return all values but the last, and all but the first."""
        return self.op.Slice(values, [0], [-1]), self.op.Slice(values, [1], [2**31])

    def _score_words(self, pieces: Pieces, rows: Any, column: Any) -> Any:
        """Run windows of pieces and merge them to words, as `TaggedDocuments` does."""
        op, builder, preprocessor = self.op, self.builder, self.task.preprocessor
        lengths = self.texts.count(rows, column, pieces.lengths)
        documents = Pieces(pieces.ids, op.CumSum(lengths, 0, exclusive=1), lengths)
        room = preprocessor.max_length - 2
        stride = window_stride(preprocessor.stride, room)
        size, stride = (op.Expand([x], op.Shape(lengths)) for x in (room, stride))
        windows = OnnxWindows(self.texts, documents, size, stride)
        logits = self.run_windows(self.texts.pack([windows.pieces]))
        # Windows start after `[CLS]`. Each piece is predicted by one window.
        length = op.Squeeze(builder.size(logits, 1))
        _, is_owned = windows.places(1, length)
        logits = op.GatherND(logits, op.Transpose(op.NonZero(is_owned)))
        # An extra row, because there may be none.
        logits = op.Pad(logits, [0, 0, 1, 0], 0.0)
        if not preprocessor.label_all_pieces:
            return op.Gather(logits, pieces.begins)
        logits = op.Slice(logits, [0], [-1])
        owners = op.Unsqueeze(self.texts.owners(pieces), [1])
        shape = builder.integers(builder.size(rows, 0), self.task.num_classes)
        total = op.ScatterElements(
            op.Expand([0.0], shape),
            op.Expand(owners, op.Shape(logits)),
            logits,
            axis=0,
            reduction="add",
        )
        count = builder.cast(op.Max(pieces.lengths, 1), "float32")
        return op.Div(total, op.Unsqueeze(count, [1]))
