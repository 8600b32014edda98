"""The ONNX graph of a classifier."""

from typing import Any

from keras_albert.exports.onnx.graph import OnnxTask


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

    def answer_tokens(self, outputs: Any) -> None:
        self._answer(outputs)

    def answer_texts(self, *columns: Any) -> None:
        index = self._answer(self.run(self.pack(*columns)))
        if index is not None:
            names = self.builder.constant(self.task.class_names, "labels")
            self.builder.output("label", self.op.Gather(names, index), "batch")

    def _answer(self, outputs: Any) -> Any:
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
