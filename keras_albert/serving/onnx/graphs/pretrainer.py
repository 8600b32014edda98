"""The ONNX graph of a pretraining model."""

from typing import Any, ClassVar

from keras_albert.serving.onnx.encoder import pool
from keras_albert.serving.onnx.graphs.masked_lm import MaskedLMGraph


class PretrainerGraph(MaskedLMGraph):
    """The graph of an `AlbertPretrainer`.

    With ids and `mask_positions`, the outputs are the logits `masked_lm` and
    `sentence_order`. With `text` and `text_pair`, the output is `score`, `(batch,)`,
    the probability that the second text follows the first.
    """

    text_axes: ClassVar[dict[str, tuple[str, ...]]] = {"text": (), "text_pair": ()}

    def run(self, ids: dict[str, Any]) -> dict[str, Any]:
        """Compute the outputs of `predict`."""
        sequence = self.encode(ids)
        return {
            "masked_lm": self.score_positions(sequence, ids["mask_positions"]),
            "sentence_order": self._score_order(sequence, ids["padding_mask"]),
        }

    def _score_order(self, sequence: Any, padding_mask: Any) -> Any:
        pooled = pool(self.builder, self.task.backbone, sequence, padding_mask)
        head = self.task.sentence_order_head
        return self.builder.dense(head, pooled, keep_float=True)

    def answer_tokens(self, outputs: dict[str, Any]) -> None:
        """Add the outputs of logits."""
        size = self.task.backbone.vocabulary_size
        logits = outputs["masked_lm"]
        self.builder.output("masked_lm", logits, "batch", "slots", size)
        order = outputs["sentence_order"]
        self.builder.output("sentence_order", order, "batch", 2)

    def answer_texts(self, *columns: Any) -> None:
        """Add the probability that the second text follows the first."""
        ids = self.pack_masks(*columns)
        logits = self._score_order(self.encode(ids), ids["padding_mask"])
        chances = self.op.Softmax(logits, axis=-1)
        self.builder.output("score", self.op.Gather(chances, 0, axis=1), "batch")
