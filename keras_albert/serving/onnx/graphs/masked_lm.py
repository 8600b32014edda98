"""The ONNX graph of a masked language model."""

from typing import Any

from keras_albert.serving.onnx.graphs.base import OnnxTask
from keras_albert.serving.onnx.masks import tokenize_masks
from keras_albert.text.masked_lm.word_starts import SPACE

# The default of `fill_mask`.
_TOP_K = 5


class OnnxMaskedLM(OnnxTask):
    """The graph of an `AlbertMaskedLM`.

    With ids and `mask_positions`, `(batch, slots)`, the output is `logits`,
    `(batch, slots, vocabulary)`. With texts that contain `[MASK]`, the outputs are
    `token`, `token_str` and `score`, each `(batch, masks, 5)`, most likely first,
    padded with 0 and "", and `count`, `(batch,)`, the number of masks that were read.
    """

    def token_axes(self) -> dict[str, tuple[str, ...]]:
        """Add `mask_positions`."""
        return {**super().token_axes(), "mask_positions": ("batch", "slots")}

    def run(self, ids: dict[str, Any]) -> Any:
        """Compute the outputs of `predict`."""
        return self.score_positions(self.encode(ids), ids["mask_positions"])

    def score_positions(self, sequence: Any, positions: Any) -> Any:
        """Run the `MaskedLMHead`."""
        op, builder, head = self.op, self.builder, self.task.masked_lm_head
        width = self.task.backbone.hidden_dim
        positions = op.Unsqueeze(builder.without_negative(positions), [-1])
        where = op.Expand(positions, [1, 1, width])
        x = builder.dense(head.transform, op.GatherElements(sequence, where, axis=1))
        x = builder.layer_norm(head.layer_norm, x)
        scores = builder.score_tokens(head.token_embedding, x)
        return op.Add(scores, builder.weight(head.output_bias))

    def answer_tokens(self, outputs: Any) -> None:
        """Add the output of logits."""
        size = self.task.backbone.vocabulary_size
        self.builder.output("logits", outputs, "batch", "slots", size)

    def answer_texts(self, *columns: Any) -> None:
        """Find the masks, and add the outputs of the most likely tokens."""
        op, builder = self.op, self.builder
        tokenizer = self.task.preprocessor.tokenizer
        pieces = tokenize_masks(self.texts, *columns)
        ids = self.texts.pack(self.texts.truncate(pieces))
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
        positions = op.ScatterND(
            op.Expand([0], shape), op.Concat(row, slot, axis=1), op.Squeeze(place, [1])
        )
        logits = self.run({**ids, "mask_positions": positions})
        logits = op.Slice(logits, [0], [-1], [1])
        count = min(_TOP_K, self.task.backbone.vocabulary_size)
        scores, tokens = op.TopK(op.Softmax(logits, axis=-1), [count], _outputs=2)
        number = op.Range(0, op.Squeeze(slots), 1)
        is_one = op.Unsqueeze(op.Less(number, op.Unsqueeze(counts, [1])), [2])
        names = [
            tokenizer.id_to_token(token).replace(SPACE, " ").removeprefix(" ")
            for token in range(tokenizer.vocabulary_size())
        ]
        strings = op.Gather(builder.constant(names, "tokens"), tokens)
        axes = ("batch", "masks", count)
        tokens = builder.cast(op.Where(is_one, tokens, 0), "int32")
        builder.output("token", tokens, *axes)
        builder.output(
            "token_str", op.Where(is_one, strings, builder.string("")), *axes
        )
        builder.output("score", op.Where(is_one, scores, 0.0), *axes)
        builder.output("count", builder.cast(counts, "int32"), "batch")
