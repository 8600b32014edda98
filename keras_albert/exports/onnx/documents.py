"""ONNX graphs of the tasks that read a long text in windows."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from keras_albert.exports.onnx.graph import OnnxTask, OnnxWindows
from keras_albert.exports.onnx.text import OnnxCharacters, Pieces, split_words
from keras_albert.exports.shared import IMPOSSIBLE, MAX_ANSWER_LENGTH, entity_tables
from keras_albert.layers.heads import MASKED_LOGIT
from keras_albert.text.spans import INVISIBLE
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
        both = (op.Unsqueeze(x, [1]) for x in (texts.previous(tags, 0), tags))
        joined = op.GatherND(builder.constant(joins, "joins"), op.Concat(*both, axis=1))
        joined = op.And(joined, op.Equal(texts.previous(rows, -1), rows))
        is_start = op.And(is_inside, op.Not(joined))
        is_end = op.And(is_inside, op.Not(texts.following(joined, False)))

        number = op.Sub(op.CumSum(builder.cast(is_start, "int64"), 0), 1)
        number, score = (op.Compress(x, is_inside, axis=0) for x in (number, score))
        firsts, tags, rows = (
            op.Compress(x, is_start, axis=0) for x in (starts, tags, rows)
        )
        ends = op.Compress(ends, is_end, axis=0)
        words = builder.cast(texts.count(number, rows), "float32")
        score = op.Div(texts.reduce(score, number, rows), words)
        characters = OnnxCharacters(texts, columns[0])
        counts = texts.count(rows, columns[0])
        start, end = (
            characters.in_text(rows, characters.at_bytes(rows, x))
            for x in (firsts, ends)
        )
        label = op.Gather(builder.constant(labels, "labels"), tags)
        nowhere = builder.constant(np.int32(0), "nowhere")
        for name, values, filler in (
            ("label", label, builder.string("")),
            ("start", start, nowhere),
            ("end", end, nowhere),
            ("score", score, 0.0),
        ):
            dense = texts.dense(values, rows, counts, filler)
            builder.output(name, dense, "batch", "most")
        builder.output("count", builder.cast(counts, "int32"), "batch")

    def _score_words(self, pieces: Pieces, rows: Any, column: Any) -> Any:
        """Run windows of pieces and merge them to words, as `TaggedDocuments` does."""
        op, builder, preprocessor = self.op, self.builder, self.task.preprocessor
        lengths = self.texts.reduce(pieces.lengths, rows, column)
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


class QuestionAnswererGraph(OnnxTask):
    """The graph of an `AlbertQuestionAnswerer`."""

    text_axes: ClassVar[dict[str, tuple[str, ...]]] = {"question": (), "context": ()}

    def run(self, ids: dict[str, Any]) -> dict[str, Any]:
        op, task = self.op, self.task
        sequence, mask = self.encode(ids), self._span_mask(ids)
        if task.head == "conditional":
            return self._run_conditional(task.span_head, sequence, mask)
        logits = self.builder.dense(task.span_logits, sequence, keep_float=True)
        return {
            name: op.Where(mask, op.Gather(logits, column, axis=-1), MASKED_LOGIT)
            for column, name in enumerate(("start_logits", "end_logits"))
        }

    def _span_mask(self, ids: dict[str, Any]) -> Any:
        op = self.op
        mask, segments = ids["padding_mask"], ids["segment_ids"]
        follows = op.Pad(op.Slice(mask, [1], [2**31], [1]), [0, 0, 0, 1], 0)
        in_context = op.And(op.Equal(segments, 1), op.Equal(follows, 1))
        length = op.Squeeze(self.builder.size(mask, 1))
        return op.Or(in_context, op.Equal(op.Range(0, length, 1), 0))

    def _run_conditional(self, head: Any, x: Any, mask: Any) -> dict[str, Any]:
        """Run a `ConditionalSpanHead` for the most likely starts."""
        op, builder = self.op, self.builder
        start = op.Squeeze(builder.dense(head.start, x, keep_float=True), [-1])
        start = op.Where(mask, start, MASKED_LOGIT)
        starts = self.likeliest(start)
        width = self.backbone.hidden_dim
        where = op.Expand(op.Unsqueeze(starts, [-1]), [1, 1, width])
        features = op.GatherElements(x, where, axis=1)
        # Combine each token with each start.
        tokens, features = op.Unsqueeze(x, [1]), op.Unsqueeze(features, [2])
        of_tokens, of_starts = builder.dense_halves(head.end_dense, tokens, features)
        hidden = op.Add(of_tokens, of_starts)
        hidden = builder.activate(head.end_dense.activation, hidden)
        hidden = builder.layer_norm(head.end_layer_norm, hidden)
        end = op.Squeeze(builder.dense(head.end, hidden, keep_float=True), [-1])
        weights = op.Unsqueeze(op.Softmax(start, axis=-1), [1])
        expected = op.Squeeze(op.MatMul(weights, x), [1])
        both = op.Concat(expected, op.Gather(x, 0, axis=1), axis=-1)
        both = builder.dense(head.answerability_dense, both)
        return {
            "start_logits": start,
            "end_logits": op.Where(op.Unsqueeze(mask, [1]), end, MASKED_LOGIT),
            "answerability": builder.dense(head.answerability, both, keep_float=True),
        }

    def likeliest(self, start_logits: Any) -> Any:
        """Return the most likely starts, as `fill_starts` does when none are passed."""
        op = self.op
        length = self.builder.size(start_logits, 1)
        count = op.Min(length, [self.task.start_n_top])
        _, order = op.TopK(start_logits, count, axis=1, _outputs=2)
        # A row may have fewer positions than starts; the last start repeats.
        rank = op.Min(list(range(self.task.start_n_top)), op.Sub(count, 1))
        return op.Gather(order, rank, axis=1)

    def transformers_outputs(self, ids: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        return {
            name: (logits, "batch", "length") for name, logits in self.run(ids).items()
        }

    def answer_tokens(self, outputs: dict[str, Any]) -> None:
        is_conditional = self.task.head == "conditional"
        starts = (self.task.start_n_top,) if is_conditional else ()
        for name, *axes in (
            ("start_logits", "length"),
            ("end_logits", *starts, "length"),
            *([("answerability", 1)] if is_conditional else ()),
        ):
            self.builder.output(name, outputs[name], "batch", *axes)

    def answer_texts(self, *columns: Any) -> None:
        op, builder, texts = self.op, self.builder, self.texts
        questions, contexts = columns
        # All texts in one column, so that the graph contains the vocabulary once.
        both = op.Concat(*columns, axis=0)
        (pieces,) = texts.tokenize(both)
        characters = OnnxCharacters(texts, both)
        first, last = characters.spans(pieces)
        asked, read = texts.split(pieces, *columns)
        windows, offsets, packed = self._windows(asked, read)
        outputs = self.run_windows(packed)
        length = op.Squeeze(builder.size(packed["token_ids"], 1))
        token, is_owned = windows.places(offsets, length)
        starts, scores, null = self._search(outputs, is_owned)

        # A piece that is a blank, or half a character, has no text. An extra token
        # keeps the tensors non-empty if there are no texts.
        first, last = (op.Concat(x, [0], axis=0) for x in (first, last))
        token = op.GatherElements(token, starts, axis=1)
        width = op.Shape(scores, start=2)
        ends = op.Add(op.Unsqueeze(token, [2]), op.Range(0, op.Squeeze(width), 1))
        ends = op.Min(ends, op.Sub(op.Size(last), 1))
        has_text = op.Greater(
            op.Gather(last, ends), op.Unsqueeze(op.Gather(first, token), [2])
        )
        scores = op.Where(has_text, scores, -np.inf)

        # The best span of each window, then the best window of each question.
        scores, begins, ends = (
            op.Flatten(op.Expand(x, op.Shape(scores)), axis=1)
            for x in (scores, op.Unsqueeze(token, [2]), ends)
        )
        found, place = op.TopK(scores, [1], _outputs=2)
        begins, ends = (op.GatherElements(x, place, axis=1) for x in (begins, ends))
        found, begins, ends = (op.Squeeze(x, [1]) for x in (found, begins, ends))
        reduced = windows.documents, questions
        best = texts.reduce(found, *reduced, "max", -np.inf)
        number = texts.positions(found)
        is_best = op.Equal(found, op.Gather(best, windows.documents))
        most = op.Squeeze(builder.size(found, 0))
        number = op.Where(is_best, number, most)
        window = texts.reduce(number, *reduced, "min", 2**31)
        null = texts.reduce(null, *reduced, "min", np.inf)
        rows = op.Add(texts.positions(contexts), op.Size(questions))
        start, end = (
            characters.in_text(rows, op.Gather(spans, op.Gather(tokens, window)))
            for spans, tokens in ((first, begins), (last, ends))
        )
        is_blank = op.RegexFullMatch(contexts, pattern=INVISIBLE)
        self._choose(start, end, best, null, is_blank)

    def _windows(self, asked: Any, read: Any) -> tuple[OnnxWindows, Any, Any]:
        """Pack questions with windows of their contexts, as `SpanWindows` does."""
        op, preprocessor = self.op, self.task.preprocessor
        budget = preprocessor.max_length - 3
        longest = min(preprocessor.max_query_length, budget // 2)
        kept = op.Min(asked.lengths, longest)
        room = op.Sub(budget, kept)
        stride = op.Min(room, preprocessor.doc_stride)
        windows = OnnxWindows(self.texts, read, room, stride)
        begins = op.Gather(asked.begins, windows.documents)
        lengths = op.Gather(kept, windows.documents)
        asked = replace(asked, begins=begins, lengths=lengths)
        packed = self.texts.pack([asked, windows.pieces])
        return windows, op.Add(lengths, 2), packed

    def _choose(
        self, start: Any, end: Any, best: Any, null: Any, is_blank: Any
    ) -> None:
        """Add the outputs; "no answer" above the threshold or without a span."""
        op, task = self.op, self.task
        is_found = op.Greater(best, IMPOSSIBLE)
        is_conditional = task.head == "conditional"
        chance = op.Sigmoid(null) if is_conditional else op.Exp(null)
        if task.null_threshold is not None:
            odds = null if is_conditional else op.Sub(null, best)
            is_found = op.And(is_found, op.LessOrEqual(odds, task.null_threshold))
        is_found = op.And(is_found, op.Not(is_blank))
        chance = op.Where(is_blank, 1.0, chance)
        score = op.Where(is_found, op.Exp(best), chance)
        self.builder.output("score", score, "batch")
        for name, place in (("start", start), ("end", end)):
            self.builder.output(name, op.Where(is_found, place, 0), "batch")

    def _search(self, outputs: dict[str, Any], is_owned: Any) -> tuple[Any, ...]:
        """Score spans in windows, as `span_candidates` does."""
        # Returns starts `(windows, starts)`, log-probabilities `(windows, starts,
        # lengths)` and each window's score for "no answer".
        op, builder, task = self.op, self.builder, self.task
        logits = outputs["start_logits"]
        start_scores = op.LogSoftmax(logits, axis=-1)
        end_scores = op.LogSoftmax(outputs["end_logits"], axis=-1)
        masked = op.Where(is_owned, start_scores, -np.inf)
        steps = op.Range(0, MAX_ANSWER_LENGTH, 1)
        if task.head == "conditional":
            starts = self.likeliest(logits)
            ends = _pad(op, end_scores, 3)
            at = op.Add(op.Unsqueeze(starts, [2]), steps)
            bands = op.GatherElements(ends, at, axis=2)
            count = min(task.end_n_top, MAX_ANSWER_LENGTH)
            largest, _ = op.TopK(bands, [count], _outputs=2)
            least = op.Slice(largest, [-1], [2**31], [2])
            bands = op.Where(op.GreaterOrEqual(bands, least), bands, -np.inf)
            null = op.Squeeze(outputs["answerability"], [1])
        else:
            place = op.Range(0, op.Squeeze(builder.size(logits, 1)), 1)
            starts = op.Expand(op.Unsqueeze(place, [0]), op.Shape(logits))
            at = op.Add(op.Unsqueeze(place, [1]), steps)
            bands = op.Gather(_pad(op, end_scores, 2), at, axis=1)
            both = op.Add(start_scores, end_scores)
            null = op.Gather(both, 0, axis=1)
        chosen = op.Unsqueeze(op.GatherElements(masked, starts, axis=1), [2])
        scores = op.Add(chosen, bands)
        impossible = op.LessOrEqual(scores, IMPOSSIBLE)
        return starts, op.Where(impossible, -np.inf, scores), null


def _pad(op: Any, scores: Any, rank: int) -> Any:
    """Pad the scores so that spans past the end of the row are impossible."""
    widths = [0] * (2 * rank - 1) + [MAX_ANSWER_LENGTH - 1]
    return op.Pad(scores, widths, -np.inf)
