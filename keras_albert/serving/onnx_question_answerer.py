"""What a question answerer computes in an ONNX runtime."""

from typing import Any

from keras_albert.layers.span_mask import MASKED_LOGIT
from keras_albert.serving.onnx_task import OnnxTask


class OnnxQuestionAnswerer(OnnxTask):
    """An `AlbertQuestionAnswerer`.

    From ids `start_logits` and `end_logits`, `(batch, length)`. The conditional head's
    `end_logits` are `(batch, starts, length)`, for the likeliest starts of the row, and
    it gives `answerability`, `(batch, 1)`.
    """

    def run(self, ids: dict[str, Any]) -> dict[str, Any]:
        """Compute what `predict` gives."""
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
        """Do what `span_mask` does."""
        op = self.op
        mask, segments = ids["padding_mask"], ids["segment_ids"]
        follows = op.Pad(op.Slice(mask, [1], [2**31], [1]), [0, 0, 0, 1], 0)
        in_context = op.And(op.Equal(segments, 1), op.Equal(follows, 1))
        length = op.Squeeze(self.builder.size(mask, 1))
        return op.Or(in_context, op.Equal(op.Range(0, length, 1), 0))

    def _run_conditional(self, head: Any, x: Any, mask: Any) -> dict[str, Any]:
        """Run a `ConditionalSpanHead` that follows the likeliest starts."""
        op, builder = self.op, self.builder
        start = op.Squeeze(builder.dense(head.start, x, keep_float=True), [-1])
        start = op.Where(mask, start, MASKED_LOGIT)
        starts = self._likeliest(start)
        width = self.task.backbone.hidden_dim
        where = op.Expand(op.Unsqueeze(starts, [-1]), [1, 1, width])
        features = op.GatherElements(x, where, axis=1)
        # Each token beside each start.
        tokens, features = op.Unsqueeze(x, [1]), op.Unsqueeze(features, [2])
        of_tokens, of_starts = builder.dense_halves(head.end_dense, tokens, features)
        hidden = builder.activate(
            head.end_dense.activation, op.Add(of_tokens, of_starts)
        )
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

    def _likeliest(self, start_logits: Any) -> Any:
        """Do what `fill_starts` does where none are given."""
        op = self.op
        length = self.builder.size(start_logits, 1)
        count = op.Min(length, [self.task.start_n_top])
        _, order = op.TopK(start_logits, count, axis=1, _outputs=2)
        # A row of fewer positions than starts repeats the last one.
        rank = op.Min(list(range(self.task.start_n_top)), op.Sub(count, 1))
        return op.Gather(order, rank, axis=1)

    def answer_tokens(self, outputs: dict[str, Any]) -> None:
        """Name the logits."""
        is_conditional = self.task.head == "conditional"
        starts = (self.task.start_n_top,) if is_conditional else ()
        self.builder.output("start_logits", outputs["start_logits"], "batch", "length")
        ends = outputs["end_logits"]
        self.builder.output("end_logits", ends, "batch", *starts, "length")
        if is_conditional:
            logit = outputs["answerability"]
            self.builder.output("answerability", logit, "batch", 1)
