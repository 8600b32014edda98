"""What a token classifier computes in an ONNX runtime."""

from typing import Any

from keras_albert.serving.onnx_task import OnnxTask


class OnnxTokenClassifier(OnnxTask):
    """An `AlbertTokenClassifier`.

    From ids `logits` and `probabilities`, `(batch, length, tags)`, and of the likeliest
    tag of each token `score` and `index`.
    """

    def run(self, ids: dict[str, Any]) -> Any:
        """Compute what `predict` gives."""
        sequence = self.encode(ids)
        return self.builder.dense(self.task.output_dense, sequence, keep_float=True)

    def answer_tokens(self, outputs: Any) -> None:
        """Name the numbers."""
        axes = ("batch", "length")
        probabilities = self.op.Softmax(outputs, axis=-1)
        score, index = self.largest(probabilities)
        for name, scores in (("logits", outputs), ("probabilities", probabilities)):
            self.builder.output(name, scores, *axes, self.task.num_classes)
        self.builder.output("score", score, *axes)
        self.builder.output("index", index, *axes)
