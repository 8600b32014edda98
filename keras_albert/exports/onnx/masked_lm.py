"""The ONNX graphs of masked language and pretraining models."""

from typing import Any, ClassVar

import numpy as np

from keras_albert.exports.onnx.graph import OnnxTask
from keras_albert.exports.onnx.text import OnnxText, Pieces
from keras_albert.exports.shared import SPACES, TOP_K, token_names


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

    def pack_masks(self, *columns: Any) -> dict[str, Any]:
        """Pack each text or pair into a row, with `[MASK]` as the mask token."""
        pieces = tokenize_masks(self.texts, *columns)
        return self.texts.pack(self.texts.truncate(pieces))

    def answer_texts(self, *columns: Any) -> None:
        """Find the masks, and add the outputs of the most likely tokens."""
        op, builder = self.op, self.builder
        tokenizer = self.task.preprocessor.tokenizer
        ids = self.pack_masks(*columns)
        is_mask = op.Equal(ids["token_ids"], tokenizer.mask_token_id)
        is_mask = op.And(is_mask, builder.cast(ids["padding_mask"], "bool"))
        ones = builder.cast(is_mask, "int64")
        counts = op.ReduceSum(ones, [1], keepdims=0)
        # The model needs at least one slot; the extra one is removed below.
        slots = op.ReduceMax(op.Concat(counts, [0], axis=0), keepdims=1)
        shape = builder.integers(builder.size(ones, 0), op.Add(slots, 1))
        at = op.Transpose(op.NonZero(is_mask))
        row, place = op.Split(at, axis=1, num_outputs=2, _outputs=2)
        slot = op.Unsqueeze(op.GatherND(op.Sub(op.CumSum(ones, 1), 1), at), [1])
        at = op.Concat(row, slot, axis=1)
        positions = op.ScatterND(op.Expand([0], shape), at, op.Squeeze(place, [1]))
        logits = self.run({**ids, "mask_positions": positions})
        logits = op.Slice(logits, [0], [-1], [1])
        count = min(TOP_K, self.backbone.vocabulary_size)
        scores, tokens = op.TopK(op.Softmax(logits, axis=-1), [count], _outputs=2)
        number = op.Range(0, op.Squeeze(slots), 1)
        is_one = op.Unsqueeze(op.Less(number, op.Unsqueeze(counts, [1])), [2])
        strings = op.Gather(builder.constant(token_names(tokenizer), "tokens"), tokens)
        axes = ("batch", "masks", count)
        tokens = builder.cast(op.Where(is_one, tokens, 0), "int32")
        builder.output("token", tokens, *axes)
        builder.output(
            "token_str", op.Where(is_one, strings, builder.string("")), *axes
        )
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
        ids = self.pack_masks(*columns)
        logits = self._score_order(self.encode(ids), ids["padding_mask"])
        chances = self.op.Softmax(logits, axis=-1)
        self.builder.output("score", self.op.Gather(chances, 0, axis=1), "batch")
