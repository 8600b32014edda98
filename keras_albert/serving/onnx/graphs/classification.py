"""The ONNX graph of a classifier."""

from typing import Any

from keras_albert.serving.onnx.builder import OnnxBuilder
from keras_albert.serving.onnx.graphs.base import OnnxTask
from keras_albert.serving.onnx.graphs.early_exit import run_early


class ClassifierGraph(OnnxTask):
    """The graph of an `AlbertClassifier`.

    Outputs: `probabilities` and `logits`, `(batch, classes)`, `score`, the probability
    of the most likely class, and its `index`; with texts as inputs also its name,
    `label`. For a regression only `score`. With `early`, the rule by which texts leave,
    its numbers are further inputs, and `depth` is a further output.
    """

    def __init__(
        self, task: Any, builder: OnnxBuilder, early: str | None = None
    ) -> None:
        super().__init__(task, builder)
        self.early = early
        self.depths: Any = None

    def run(self, ids: dict[str, Any]) -> Any:
        """Compute the outputs of `predict`."""
        if self.early is not None:
            outputs, self.depths = run_early(self.builder, self.task, ids, self.early)
            return outputs
        pooled = self.encode_pooled(ids)
        return self.builder.dense(self.task.output_dense, pooled, keep_float=True)

    def answer_tokens(self, outputs: Any) -> None:
        """Add the numeric outputs."""
        self._answer(outputs)

    def answer_texts(self, *columns: Any) -> None:
        """Add the numeric outputs and the class name."""
        index = self._answer(self.run(self.pack(*columns)))
        if index is not None:
            self.builder.output("label", self.name_of(index), "batch")

    def _answer(self, outputs: Any) -> Any:
        builder, classes = self.builder, self.task.num_classes
        if self.depths is not None:
            builder.output("depth", self.depths, "batch")
        if self.task.is_regression:
            builder.output("score", self.op.Squeeze(outputs, [1]), "batch")
            return None
        probabilities = outputs
        if self.task.returns_logits:
            probabilities = self.op.Softmax(outputs, axis=-1)
            builder.output("logits", outputs, "batch", classes)
        score, index = self.largest(probabilities)
        builder.output("probabilities", probabilities, "batch", classes)
        builder.output("score", score, "batch")
        builder.output("index", index, "batch")
        return index
