"""What a classifier computes in an ONNX runtime."""

from typing import Any

from keras_albert.serving.onnx_task import OnnxTask


class OnnxClassifier(OnnxTask):
    """An `AlbertClassifier`.

    Outputs: `probabilities` and `logits`, `(batch, classes)`, `score`, the probability
    of the likeliest class, and that one's number, `index`; from texts its name as well,
    `label`. Of a regression `score` alone.
    """

    def run(self, ids: dict[str, Any]) -> Any:
        """Compute what `predict` gives."""
        pooled = self.encode_pooled(ids)
        return self.builder.dense(self.task.output_dense, pooled, keep_float=True)

    def answer_tokens(self, outputs: Any) -> None:
        """Name the numbers."""
        self._answer(outputs)

    def answer_texts(self, *columns: Any) -> None:
        """Name the numbers, and the class."""
        index = self._answer(self.run(self.pack(*columns)))
        if index is not None:
            self.builder.output("label", self.name_of(index), "batch")

    def _answer(self, outputs: Any) -> Any:
        builder, classes = self.builder, self.task.num_classes
        if self.task.is_regression:
            builder.output("score", self.op.Squeeze(outputs, [1]), "batch")
            return None
        probabilities = outputs
        if self.task.gives_logits:
            probabilities = self.op.Softmax(outputs, axis=-1)
            builder.output("logits", outputs, "batch", classes)
        score, index = self.largest(probabilities)
        builder.output("probabilities", probabilities, "batch", classes)
        builder.output("score", score, "batch")
        builder.output("index", index, "batch")
        return index
