"""The base class of all ONNX graphs."""

from typing import Any, ClassVar

from keras_albert.serving.onnx.builder import OnnxBuilder
from keras_albert.serving.onnx.encoder import encode, pool
from keras_albert.serving.onnx.text import OnnxText
from keras_albert.tasks.inputs.preprocessed_inputs import ID_NAMES


class OnnxTask:
    """A task as an ONNX graph, with ids or texts as inputs.

    Subclasses define what the model computes (`run`), the outputs (`answer_tokens`,
    `answer_texts`), and the inputs of strings (`text_axes`).
    """

    # The inputs of strings, each with its axes after the batch.
    text_axes: ClassVar[dict[str, tuple[str, ...]]] = {"text": ()}

    def __init__(self, task: Any, builder: OnnxBuilder) -> None:
        self.task = task
        self.builder = builder
        self.op = builder.op

    def from_tokens(self) -> None:
        """Build the graph that takes the preprocessor's outputs, in int32."""
        inputs = {
            name: self.builder.input(name, "int32", *axes)
            for name, axes in self.token_axes().items()
        }
        self.answer_tokens(self.run(inputs))

    def from_texts(self, pairs: bool) -> None:
        """Build the graph that takes strings; `pairs` adds `text_pair`."""
        self.texts = OnnxText(self.builder, self.task.preprocessor)
        inputs = self.text_axes | ({"text_pair": ()} if pairs else {})
        columns = (
            self.builder.input(name, "string", "batch", *axes)
            for name, axes in inputs.items()
        )
        self.answer_texts(*columns)

    def token_axes(self) -> dict[str, tuple[str, ...]]:
        """Return the axes of each input of ids."""
        return dict.fromkeys(ID_NAMES, ("batch", "length"))

    def run(self, ids: dict[str, Any]) -> Any:
        """Compute the outputs of `predict`."""
        raise NotImplementedError

    def answer_tokens(self, outputs: Any) -> None:
        """Add the outputs of the graph that takes ids, which are numbers only."""
        raise NotImplementedError

    def answer_texts(self, *columns: Any) -> None:
        """Build the graph from strings, and add its outputs."""
        raise NotImplementedError

    def pack(self, *columns: Any) -> dict[str, Any]:
        """Tokenize, truncate and pack one or two columns of texts."""
        return self.texts.pack(self.texts.truncate(self.texts.tokenize(*columns)))

    def encode(self, ids: dict[str, Any]) -> Any:
        """Run the backbone and return `sequence_output`."""
        return encode(self.builder, self.task.backbone, ids)

    def encode_pooled(self, ids: dict[str, Any]) -> Any:
        """Run the backbone and return `pooled_output`."""
        sequence = self.encode(ids)
        return pool(self.builder, self.task.backbone, sequence, ids["padding_mask"])

    def largest(self, values: Any) -> tuple[Any, Any]:
        """Return the largest number of each row, and its index, int32."""
        # Not ArgMax: without rows, ONNX Runtime returns a different rank.
        most, place = self.op.TopK(values, [1], _outputs=2)
        most, place = (self.op.Squeeze(x, [-1]) for x in (most, place))
        return most, self.builder.cast(place, "int32")

    def name_of(self, index: Any) -> Any:
        """Return the names of classes by index."""
        return self.op.Gather(
            self.builder.constant(self.task.class_names, "labels"), index
        )
