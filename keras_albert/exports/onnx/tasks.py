"""ONNX graphs of tasks that read a row for each text."""

from dataclasses import replace
from typing import Any, ClassVar

import keras
import numpy as np

from keras_albert.data.tables import ID_NAMES
from keras_albert.exports.onnx.builder import OnnxBuilder
from keras_albert.exports.onnx.graph import OnnxTask
from keras_albert.exports.onnx.text import OnnxText, Pieces
from keras_albert.exports.shared import SPACES, TOP_K, token_names
from keras_albert.layers.heads import MISSING_CHOICE


class ClassifierGraph(OnnxTask):
    """The graph of an `AlbertClassifier`."""

    def run(self, ids: dict[str, Any]) -> Any:
        head = self.task.output_dense
        return self.builder.dense(head, self._pooled(ids), keep_float=True)

    def _pooled(self, ids: dict[str, Any]) -> Any:
        """Return what the head reads."""
        if self.task.pooling_mode == "pooler":
            return self.encode_pooled(ids)
        return self.normalize(self.masked_mean(self.encode(ids), ids["padding_mask"]))

    def transformers_outputs(self, ids: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        # Clients apply the softmax, or the sigmoid.
        logits = self.builder.dense(
            self.task.output_dense, self._pooled(ids), keep_float=True, activate=False
        )
        return {"logits": (logits, "batch", self.task.num_classes)}

    def answer_texts(self, *columns: Any) -> None:
        index = self.answer_tokens(self.run(self.pack(*columns)))
        if index is not None:
            names = self.builder.constant(self.task.class_names, "labels")
            self.builder.output("label", self.op.Gather(names, index), "batch")

    def answer_tokens(self, outputs: Any) -> Any:
        builder, classes = self.builder, self.task.num_classes
        if self.task.is_regression:
            builder.output("score", self.op.Squeeze(outputs, [1]), "batch")
            return None
        probabilities = outputs
        if self.task.outputs_are_logits is not False:
            probabilities = self.op.Softmax(outputs, axis=-1)
            builder.output("logits", outputs, "batch", classes)
        score, index = self.largest(probabilities)
        builder.output("probabilities", probabilities, "batch", classes)
        builder.output("score", score, "batch")
        builder.output("index", index, "batch")
        if (threshold := self.task.set_threshold) is not None:
            least = self.op.Unsqueeze(self.op.Min(score, threshold), [1])
            inside = self.op.GreaterOrEqual(probabilities, least)
            builder.output("in_set", inside, "batch", classes)
        return index


class TextEmbedderGraph(OnnxTask):
    """The graph of an `AlbertTextEmbedder`: `embedding`, `(batch, width)`."""

    def transformers_outputs(self, ids: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        op, sequence = self.op, self.encode(ids)
        weights = self._token_weights(ids)
        if weights is not None:
            # Clients know no weights: their mean over a text becomes 1.
            weights = op.Unsqueeze(weights, [-1])
            mean = self.masked_mean(weights, ids["padding_mask"])
            weights = op.Div(weights, op.Unsqueeze(mean, [-1]))
            sequence = op.Mul(sequence, weights)
        width = self.backbone.hidden_dim
        return {"last_hidden_state": (sequence, "batch", "length", width)}

    def run(self, ids: dict[str, Any]) -> Any:
        op = self.op
        vectors = self._pool(self.encode(ids), ids)
        if self.task.dim is not None:
            vectors = op.Slice(vectors, [0], [self.task.dim], [1])
        return self.normalize(vectors) if self.task.normalize else vectors

    def _pool(self, sequence: Any, ids: dict[str, Any]) -> Any:
        op, mode = self.op, self.task.pooling_mode
        if mode == "cls":
            return op.Gather(sequence, 0, axis=1)
        if mode == "max":
            is_real = op.Unsqueeze(self.builder.cast(ids["padding_mask"], "bool"), [-1])
            return op.ReduceMax(op.Where(is_real, sequence, -1e9), [1], keepdims=0)
        weights = self._token_weights(ids)
        return self.masked_mean(sequence, ids["padding_mask"], weights)

    def _token_weights(self, ids: dict[str, Any]) -> Any:
        """Return the weight of each token in the mean, or `None`."""
        pooling = self.task.pooling
        if pooling.inverse_frequency is None:
            return None
        found = keras.ops.convert_to_numpy(pooling.token_probabilities)
        values = pooling.inverse_frequency / (pooling.inverse_frequency + found)
        table = self.builder.constant(values, "token_weights")
        return self.op.Gather(table, ids["token_ids"])

    def answer_tokens(self, outputs: Any) -> None:
        width = self.task.output.shape[-1]
        self.builder.output("embedding", outputs, "batch", width)

    def answer_texts(self, *columns: Any) -> None:
        """Add the vectors of texts, or the similarities of pairs."""
        if len(columns) == 1:
            self.answer_tokens(self.run(self.pack(*columns)))
            return
        op = self.op
        # Each text is embedded independently, in a separate row.
        vectors = self.run(self.pack(op.Concat(*columns, axis=0)))
        vectors = self.normalize(vectors)
        sizes = op.Concat(*(op.Shape(column) for column in columns), axis=0)
        first, second = op.Split(vectors, sizes, _outputs=2)
        cosine = op.ReduceSum(op.Mul(first, second), [1], keepdims=0)
        self.builder.output("similarity", cosine, "batch")


class MultipleChoiceGraph(OnnxTask):
    """The graph of an `AlbertMultipleChoice`."""

    text_axes: ClassVar[dict[str, tuple[str, ...]]] = {
        "context": (),
        "question": (),
        "choices": ("choices",),
    }

    def token_axes(self) -> dict[str, tuple[str, ...]]:
        return dict.fromkeys(ID_NAMES, ("batch", "choices", "length"))

    def run(self, ids: dict[str, Any]) -> Any:
        op, builder = self.op, self.builder
        mask = ids["padding_mask"]
        length = builder.size(mask, -1)
        shape = builder.integers(-1, length)
        rows = {name: op.Reshape(x, shape) for name, x in ids.items()}
        # For a missing choice, the first position is unmasked.
        is_empty = op.Equal(op.ReduceMax(rows["padding_mask"], [1]), 0)
        is_first = op.Equal(op.Range(0, op.Squeeze(length), 1), 0)
        is_shown = op.And(is_empty, is_first)
        is_real = builder.cast(rows["padding_mask"], "bool")
        rows["padding_mask"] = op.Or(is_real, is_shown)
        pooled = self.encode_pooled(rows)
        scores = builder.dense(self.task.output_dense, pooled, keep_float=True)
        scores = op.Reshape(scores, op.Shape(mask, end=2), allowzero=1)
        self.is_present = op.Greater(op.ReduceMax(mask, [2], keepdims=0), 0)
        return op.Where(self.is_present, scores, MISSING_CHOICE)

    def transformers_outputs(self, ids: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        return {"logits": (self.run(ids), "batch", "choices")}

    def answer_tokens(self, outputs: Any) -> None:
        """Add the numeric outputs."""
        self.builder.output("logits", outputs, "batch", "choices")
        self._answer(outputs)

    def _answer(self, outputs: Any) -> Any:
        op, builder = self.op, self.builder
        scores = op.Where(self.is_present, op.Softmax(outputs, axis=-1), 0.0)
        builder.output("scores", scores, "batch", "choices")
        # An extra place at 0, because there is no maximum over no choices; it becomes
        # the index -1.
        padded = op.Pad(scores, [0, 1, 0, 0], -1.0)
        _, best = self.largest(op.Where(op.Greater(padded, 0.0), padded, -1.0))
        index = op.Sub(best, 1)
        builder.output("index", index, "batch")
        return index

    def answer_texts(self, *columns: Any) -> None:
        op, builder = self.op, self.builder
        context, question, choices = columns
        filled = fill_in(builder, question, choices)
        stands_alone = op.Equal(context, builder.string(""))
        first = op.Where(stands_alone, question, context)
        second = op.Where(op.Unsqueeze(stands_alone, [1]), choices, filled)
        packed = self._pack(first, op.Reshape(second, [-1]), choices)
        index = self._answer(self.run(packed))
        column = builder.integers(builder.size(choices, 0), 1)
        none = op.Expand(builder.string(""), column)
        known = op.Concat(none, choices, axis=1)
        place = op.Unsqueeze(op.Add(index, 1), [1])
        choice = op.Squeeze(op.GatherElements(known, place, axis=1), [1])
        builder.output("choice", choice, "batch")

    def _pack(self, texts: Any, tails: Any, choices: Any) -> dict[str, Any]:
        """Pack a row for each choice, as `ChoiceRows` does."""
        op, builder, preprocessor = self.op, self.builder, self.texts.preprocessor
        max_length = preprocessor.max_length
        first, second = self.texts.tokenize(texts, tails)
        kept = op.Min(second.lengths, min(preprocessor.max_qa_length, max_length - 4))
        begins = op.Add(second.begins, op.Sub(second.lengths, kept))
        second = replace(second, begins=begins, lengths=kept)
        # The index of each row's text; a text is tokenized once.
        count = op.Max(builder.size(choices, 1), 1)
        rows = op.Div(self.texts.positions(tails), count)
        room = op.Sub(max_length - 3, kept)
        lengths = op.Min(op.Gather(first.lengths, rows), room)
        first = replace(first, begins=op.Gather(first.begins, rows), lengths=lengths)
        packed = self.texts.pack([first, second])
        is_missing = op.Reshape(op.Equal(choices, builder.string("")), [-1, 1])
        mask = op.Where(is_missing, 0, packed["padding_mask"])
        width = builder.size(mask, 1)
        shape = builder.integers(op.Shape(choices), width)
        return {
            name: op.Reshape(ids, shape, allowzero=1)
            for name, ids in {**packed, "padding_mask": mask}.items()
        }


def fill_in(builder: OnnxBuilder, questions: Any, choices: Any) -> Any:
    """Put each choice for the `_` of its question, or behind it: `(batch, choices)`."""
    op = builder.op
    # An extra question and choice, because `StringJoin` crashes on empty tensors.
    nothing = op.Constant(value_strings=[""])
    questions = op.Concat(questions, nothing, axis=0)
    for axis in (0, 1):
        shape = op.ScatterElements(op.Shape(choices), [axis], [1])
        choices = op.Concat(choices, op.Expand(nothing, shape), axis=axis)
    # An extra blank, removed below, because an empty string splits into no parts.
    whole = op.StringConcat(questions, builder.string("_"))
    parts, counts = op.StringSplit(whole, delimiter="_", _outputs=2)
    blanks = op.Unsqueeze(op.Sub(counts, 2), [1])
    place = op.Range(0, op.Squeeze(builder.size(parts, 1)), 1)
    is_blank = op.Unsqueeze(op.Less(place, blanks), [1])
    between = op.Where(is_blank, op.Unsqueeze(choices, [2]), builder.string(""))
    parts = op.StringConcat(op.Unsqueeze(parts, [1]), between)
    filled = builder.typed(builder.texts.StringJoin(parts, nothing, [2]), "string")
    opened = op.StringConcat(questions, builder.string(" "))
    behind = op.StringConcat(op.Unsqueeze(opened, [1]), choices)
    found = op.Where(op.Greater(blanks, 0), filled, behind)
    return op.Slice(found, [0, 0], [-1, -1])


class MaskedLMGraph(OnnxTask):
    """The graph of an `AlbertMaskedLM`."""

    def token_axes(self) -> dict[str, tuple[str, ...]]:
        return {**super().token_axes(), "mask_positions": ("batch", "slots")}

    def run(self, ids: dict[str, Any]) -> Any:
        return self.score_positions(self.encode(ids), ids["mask_positions"])

    def transformers_outputs(self, ids: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        logits = self._score(self.encode(ids))
        size = self.backbone.vocabulary_size
        return {"logits": (logits, "batch", "length", size)}

    def score_positions(self, sequence: Any, positions: Any) -> Any:
        """Run the `MaskedLMHead` at some positions."""
        op, width = self.op, self.backbone.hidden_dim
        positions = op.Unsqueeze(self.builder.without_negative(positions), [-1])
        where = op.Expand(positions, [1, 1, width])
        return self._score(op.GatherElements(sequence, where, axis=1))

    def _score(self, x: Any) -> Any:
        op, builder, head = self.op, self.builder, self.task.masked_lm_head
        x = builder.dense(head.transform, x)
        x = builder.layer_norm(head.layer_norm, x)
        scores = builder.score_tokens(head.token_embedding, x)
        return op.Add(scores, builder.weight(head.output_bias))

    def answer_tokens(self, outputs: Any) -> None:
        size = self.backbone.vocabulary_size
        self.builder.output("logits", outputs, "batch", "slots", size)

    def pack(self, *columns: Any) -> dict[str, Any]:
        """Pack each text or pair into a row, with `[MASK]` as the mask token."""
        pieces = tokenize_masks(self.texts, *columns)
        return self.texts.pack(self.texts.truncate(pieces))

    def answer_texts(self, *columns: Any) -> None:
        """Find the masks, and add the outputs of the most likely tokens."""
        op, builder = self.op, self.builder
        tokenizer = self.task.preprocessor.tokenizer
        ids = self.pack(*columns)
        is_mask = op.Equal(ids["token_ids"], tokenizer.mask_token_id)
        is_mask = op.And(is_mask, builder.cast(ids["padding_mask"], "bool"))
        found = op.Split(op.NonZero(is_mask), axis=0, num_outputs=2, _outputs=2)
        rows, places = (op.Squeeze(x, [0]) for x in found)
        counts = self.texts.count(rows, is_mask)
        positions = self.texts.dense(places, rows, counts, 0)
        # The model needs at least one slot; the extra one is removed below.
        positions = op.Pad(positions, [0, 0, 0, 1], 0)
        logits = self.run({**ids, "mask_positions": positions})
        logits = op.Slice(logits, [0], [-1], [1])
        count = min(TOP_K, self.backbone.vocabulary_size)
        scores, tokens = op.TopK(op.Softmax(logits, axis=-1), [count], _outputs=2)
        number = op.Range(0, op.Squeeze(builder.size(logits, 1)), 1)
        is_one = op.Unsqueeze(op.Less(number, op.Unsqueeze(counts, [1])), [2])
        strings = op.Gather(builder.constant(token_names(tokenizer), "tokens"), tokens)
        axes = ("batch", "masks", count)
        strings = op.Where(is_one, strings, builder.string(""))
        tokens = builder.cast(op.Where(is_one, tokens, 0), "int32")
        builder.output("token", tokens, *axes)
        builder.output("token_str", strings, *axes)
        builder.output("score", op.Where(is_one, scores, 0.0), *axes)
        builder.output("count", builder.cast(counts, "int32"), "batch")


def tokenize_masks(texts: OnnxText, *columns: Any) -> list[Pieces]:
    """Implement the function of this name in `keras_albert.text`."""
    op, builder = texts.op, texts.builder
    tokenizer = texts.preprocessor.tokenizer
    mask = tokenizer.mask_token
    rows = op.Concat(*columns, axis=0)
    # An extra mask, removed below, because an empty string splits into no parts.
    parts, counts = op.StringSplit(
        op.StringConcat(rows, builder.string(mask)), delimiter=mask, _outputs=2
    )
    number = op.Range(0, op.Squeeze(builder.size(parts, 1)), 1)
    is_part = op.Less(number, op.Sub(op.Unsqueeze(counts, [1]), 1))
    is_behind = op.Reshape(op.And(is_part, op.Greater(number, 0)), [-1])
    masks = builder.cast(is_behind, "int64")
    flat = op.Reshape(op.Where(is_part, parts, builder.string("")), [-1])
    (pieces,) = texts.tokenize(flat)
    owner = texts.owners(pieces)

    # A part that starts without a space continues the word of the mask.
    is_apart = op.RegexFullMatch(flat, pattern=f"(?s)[{SPACES}].*")
    goes_on = op.And(is_behind, op.Not(is_apart))
    is_first = op.Equal(texts.positions(pieces.ids), op.Gather(pieces.begins, owner))
    is_inner = op.And(is_first, op.Gather(goes_on, owner))
    inner = tokenizer.vocabulary.inner_ids.astype(np.int64)
    inner = op.Gather(builder.constant(inner, "inner_pieces"), pieces.ids)
    ids = op.Where(is_inner, inner, pieces.ids)
    is_kept = op.GreaterOrEqual(ids, 0)
    ids, owner = (op.Compress(x, is_kept, axis=0) for x in (ids, owner))

    # Put the mask before each part, and join parts to texts.
    ones = op.Add(op.Mul(owner, 0), 1)
    lengths = op.ScatterElements(masks, owner, ones, reduction="add")
    before = op.CumSum(masks, 0)
    place = texts.positions(ids)
    total = op.ReduceSum(lengths, keepdims=1)
    filled = op.Expand([tokenizer.mask_token_id], total)
    filled = op.ScatterElements(filled, op.Add(place, op.Gather(before, owner)), ids)
    lengths = op.Reshape(lengths, op.Shape(parts), allowzero=1)
    lengths = op.ReduceSum(lengths, [1], keepdims=0)
    begins = op.CumSum(lengths, 0, exclusive=1)
    return texts.split(Pieces(filled, begins, lengths), *columns)


class PretrainerGraph(MaskedLMGraph):
    """The graph of an `AlbertPretrainer`."""

    text_axes: ClassVar[dict[str, tuple[str, ...]]] = {"text": (), "text_pair": ()}

    def run(self, ids: dict[str, Any]) -> dict[str, Any]:
        sequence = self.encode(ids)
        return {
            "masked_lm": self.score_positions(sequence, ids["mask_positions"]),
            "sentence_order": self._score_order(sequence, ids["padding_mask"]),
        }

    def _score_order(self, sequence: Any, padding_mask: Any) -> Any:
        head, pooled = self.task.sentence_order_head, self.pool(sequence, padding_mask)
        return self.builder.dense(head, pooled, keep_float=True)

    def answer_tokens(self, outputs: dict[str, Any]) -> None:
        size = self.backbone.vocabulary_size
        for name, *axes in (("masked_lm", "slots", size), ("sentence_order", 2)):
            self.builder.output(name, outputs[name], "batch", *axes)

    def answer_texts(self, *columns: Any) -> None:
        ids = self.pack(*columns)
        logits = self._score_order(self.encode(ids), ids["padding_mask"])
        chances = self.op.Softmax(logits, axis=-1)
        self.builder.output("score", self.op.Gather(chances, 0, axis=1), "batch")
