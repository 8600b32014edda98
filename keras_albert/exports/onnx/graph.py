"""The base class of all ONNX graphs, and their windows."""

from typing import Any, ClassVar

import keras

from keras_albert.data.tables import ID_NAMES
from keras_albert.exports.onnx.builder import OnnxBackbone, OnnxBuilder
from keras_albert.exports.onnx.text import OnnxText, Pieces
from keras_albert.exports.shared import WINDOWS_AT_ONCE
from keras_albert.tasks.task import AlbertTask


class OnnxTask(OnnxBackbone):
    """A task as an ONNX graph, with ids or texts as inputs."""

    # The inputs of strings, each with its axes after the batch.
    text_axes: ClassVar[dict[str, tuple[str, ...]]] = {"text": ()}

    def __init__(self, task: AlbertTask, builder: OnnxBuilder) -> None:
        super().__init__(task.backbone, builder)
        self.task = task

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
        add = self.builder.input
        self.answer_texts(*(add(n, "string", "batch", *x) for n, x in inputs.items()))

    def from_transformers(self) -> None:
        """Build the graph with transformers' names of inputs and outputs, int64."""
        op, builder, axes = self.op, self.builder, self.token_axes()["token_ids"]
        tokens, mask, segments = (
            builder.input(name, "int64", *axes)
            for name in ("input_ids", "attention_mask", "token_type_ids")
        )
        # Some clients pass zeros for a pair: what follows its first separator is the
        # second text. Of one text, only padding follows.
        separator = self.task.preprocessor.tokenizer.sep_token_id
        is_separator = builder.cast(op.Equal(tokens, separator), "int64")
        behind = op.Greater(op.CumSum(is_separator, -1, exclusive=1), 0)
        second = op.Mul(builder.cast(behind, "int64"), mask)
        is_told = op.ReduceMax(segments, [-1], keepdims=1)
        segments = op.Where(op.Greater(is_told, 0), segments, second)
        ids = dict(zip(ID_NAMES, (tokens, segments, mask), strict=True))
        for name, output in self.transformers_outputs(ids).items():
            builder.output(name, *output)

    def transformers_outputs(self, ids: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
        """Return the outputs by transformers' names, each with its axes."""
        raise NotImplementedError

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

    def encode_pooled(self, ids: dict[str, Any]) -> Any:
        """Run the backbone and return `pooled_output`."""
        return self.pool(self.encode(ids), ids["padding_mask"])

    def run_windows(self, ids: dict[str, Any]) -> Any:
        """Return the results of `run` for many rows, computed in batches."""
        op, builder = self.op, self.builder
        rows = builder.size(ids["token_ids"], 0)
        turns = op.Max(op.Div(op.Add(rows, WINDOWS_AT_ONCE - 1), WINDOWS_AT_ONCE), 1)
        at_once = op.Div(op.Sub(op.Add(rows, turns), 1), turns)
        count = op.Mul(turns, at_once)
        # The last row is repeated to fill the last batch.
        row = op.Min(op.Range(0, op.Squeeze(count), 1), op.Sub(rows, 1))
        shape = builder.integers(turns, at_once, builder.size(ids["token_ids"], 1))
        chosen = (op.Gather(values, row) for values in ids.values())
        parts = [op.Reshape(values, shape, allowzero=1) for values in chosen]

        body = OnnxBuilder(builder.quantize, around=builder)
        part = {name: body.input(name, "int64", "rows", "length") for name in ids}
        outputs = type(self)(self.task, body).run(part)
        values = keras.tree.flatten(outputs)
        for number, value in enumerate(values):
            body.output(f"output_{number}", value)
        found = op.Scan(
            *parts, body=body.graph, num_scan_inputs=len(parts), _outputs=len(values)
        )

        def join(value: Any) -> Any:
            shape = op.Concat(count, op.Shape(value, start=2), axis=0)
            return op.Slice(op.Reshape(value, shape, allowzero=1), [0], rows)

        found = [found] if len(values) == 1 else found
        return keras.tree.pack_sequence_as(outputs, [join(value) for value in found])

    def largest(self, values: Any) -> tuple[Any, Any]:
        """Return the largest number of each row, and its index, int32."""
        # Not ArgMax: without rows, ONNX Runtime returns a different rank.
        most, place = self.op.TopK(values, [1], _outputs=2)
        most, place = (self.op.Squeeze(x, [-1]) for x in (most, place))
        return most, self.builder.cast(place, "int32")


class OnnxWindows:
    """`OverlappingWindows` in ONNX operations."""

    def __init__(self, texts: OnnxText, pieces: Pieces, size: Any, stride: Any) -> None:
        op = self.op = texts.op
        over = op.Sub(op.Add(op.Sub(pieces.lengths, size), stride), 1)
        counts = op.Add(op.Max(op.Div(over, stride), 0), 1)
        firsts = op.CumSum(counts, 0, exclusive=1)
        self.documents = texts.numbers(firsts, op.ReduceSum(counts, keepdims=1))
        values = (pieces.begins, pieces.lengths, size, stride, counts, firsts)
        base, whole, size, stride, counts, firsts = (
            op.Gather(value, self.documents) for value in values
        )
        number = op.Sub(texts.positions(self.documents), firsts)
        kept = op.Min(whole, size)
        last = op.Sub(whole, kept)

        def start_of(number: Any) -> Any:
            return op.Add(base, op.Min(op.Mul(number, stride), last))

        def border(number: Any) -> Any:
            """Return the first token predicted by this window, not the previous one."""
            # The sum of two middles, each times two to stay an integer.
            both = op.Add(start_of(number), start_of(op.Sub(number, 1)))
            middle = op.Add(both, kept)
            return op.Div(op.Add(middle, 1), 2)

        begins, following = start_of(number), op.Add(number, 1)
        self.pieces = Pieces(pieces.ids, begins, kept)
        self._owned_from = op.Where(op.Equal(number, 0), begins, border(number))
        is_last = op.Equal(following, counts)
        self._owned_to = op.Where(is_last, op.Add(begins, kept), border(following))

    def places(self, offsets: Any, length: Any) -> tuple[Any, Any]:
        """Return the token at each position `(windows, length)`, 0 if not predicted."""
        op = self.op
        begins = op.Sub(self.pieces.begins, offsets)
        values = begins, self._owned_from, self._owned_to
        start, low, high = (op.Unsqueeze(value, [1]) for value in values)
        place = op.Add(start, op.Range(0, length, 1))
        is_owned = op.And(op.GreaterOrEqual(place, low), op.Less(place, high))
        return op.Where(is_owned, place, 0), is_owned
