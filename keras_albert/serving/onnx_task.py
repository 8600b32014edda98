"""What the ONNX graphs of all tasks share."""

from typing import Any, ClassVar

from keras_albert.serving.onnx_builder import OnnxBuilder
from keras_albert.serving.onnx_encoder import encode, pool
from keras_albert.serving.onnx_text import OnnxText
from keras_albert.tasks.id_arrays import ID_NAMES


class OnnxTask:
    """A task as an ONNX graph, from ids or from texts.

    A subclass says what the model computes (`run`), what clients read off it
    (`answer`), and which texts it takes (`read_texts`).

    Args:
        task: A task; from texts it needs its preprocessor.
        builder: An empty graph.
    """

    # The inputs of strings, each with its axes behind the batch.
    text_axes: ClassVar[dict[str, tuple[str, ...]]] = {"text": ()}

    def __init__(self, task: Any, builder: OnnxBuilder) -> None:
        self.task = task
        self.builder = builder
        self.op = builder.op

    def from_tokens(self) -> None:
        """Build the graph that takes what the preprocessor makes, in int32."""
        inputs = {
            name: self.builder.input(name, "int32", *axes)
            for name, axes in self.token_axes().items()
        }
        self.answer_tokens(self.run(inputs))

    def from_texts(self, pairs: bool) -> None:
        """Build the graph that takes strings.

        Args:
            pairs: bool. Whether it takes `text_pair` beside `text`.
        """
        self.texts = OnnxText(self.builder, self.task.preprocessor)
        inputs = self.text_axes | ({"text_pair": ()} if pairs else {})
        columns = (
            self.builder.input(name, "string", "batch", *axes)
            for name, axes in inputs.items()
        )
        self.answer_texts(*columns)

    def token_axes(self) -> dict[str, tuple[str, ...]]:
        """Give the axes of each input of ids."""
        return dict.fromkeys(ID_NAMES, ("batch", "length"))

    def run(self, ids: dict[str, Any]) -> Any:
        """Compute what `predict` gives."""
        raise NotImplementedError

    def answer_tokens(self, outputs: Any) -> None:
        """Name the outputs of the graph that takes ids; they are numbers alone."""
        raise NotImplementedError

    def answer_texts(self, *columns: Any) -> None:
        """Build from strings to what a client reads."""
        raise NotImplementedError

    def pack(self, *columns: Any) -> dict[str, Any]:
        """Tokenize and truncate one or two columns of texts, and lay them into rows."""
        return self.texts.pack(self.texts.truncate(self.texts.tokenize(*columns)))

    def encode(self, ids: dict[str, Any]) -> Any:
        """Run the backbone: `sequence_output`."""
        return encode(self.builder, self.task.backbone, ids)

    def encode_pooled(self, ids: dict[str, Any]) -> Any:
        """Run the backbone: `pooled_output`."""
        return pool(self.builder, self.task.backbone, self.encode(ids))

    def largest(self, values: Any) -> tuple[Any, Any]:
        """Give the largest number of each row, and its place, int32."""
        # Not ArgMax: of no rows at all ONNX Runtime gives it another rank.
        most, place = self.op.TopK(values, [1], _outputs=2)
        most, place = (self.op.Squeeze(x, [-1]) for x in (most, place))
        return most, self.builder.cast(place, "int32")

    def name_of(self, index: Any) -> Any:
        """Give the names of classes by their numbers."""
        return self.op.Gather(
            self.builder.constant(self.task.class_names, "labels"), index
        )
