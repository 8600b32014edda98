"""Building ONNX graphs from Keras layers and ALBERT's backbone."""

import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir
from onnxscript import GraphBuilder

from keras_albert.exports.shared import float_weight, graph_class, split_int8
from keras_albert.layers.base_layer import gelu_approximate, get_activation
from keras_albert.tasks.task import AlbertTask

# Opset 20 is the first with GELU, in both of ALBERT's forms, and string operations.
OPSET = 20
# The file format version of the same ONNX release.
IR_VERSION = 9
TEXT_DOMAIN = "ai.onnx.contrib"
TABLE_DOMAIN = "ai.onnx.ml"

DTYPES = {
    "float32": onnx_ir.DataType.FLOAT,
    "int32": onnx_ir.DataType.INT32,
    "int64": onnx_ir.DataType.INT64,
    "bool": onnx_ir.DataType.BOOL,
    "string": onnx_ir.DataType.STRING,
}


# Operations of the same name and defaults as Keras' activations.
_ACTIVATIONS = ["Elu", "Gelu", "Mish", "Relu", "Selu", "Sigmoid", "Softmax"]
_ACTIVATIONS += ["Softplus", "Softsign", "Tanh"]


class OnnxBuilder:
    """A builder of an ONNX graph."""

    # `op`, `texts` (onnxruntime-extensions) and `tables` have operations as methods,
    # `op.Add(x, 1)`; arguments may be numbers and lists of numbers.

    def __init__(
        self, quantize: bool = False, around: "OnnxBuilder | None" = None
    ) -> None:
        opsets = {"": OPSET}
        name = "keras_albert" if around is None else "part"
        self.graph = onnx_ir.Graph([], [], nodes=[], opset_imports=opsets, name=name)
        parent = None if around is None else around._builder
        self._builder: GraphBuilder = GraphBuilder(self.graph, parent=parent)
        self.op: Any = self._builder.op
        self.texts: Any = self._builder.opset(TEXT_DOMAIN, 1)
        self.tables: Any = self._builder.opset(TABLE_DOMAIN, 2)
        self.quantize = quantize
        # A graph checks once that patterns match, however many texts it splits.
        self.checks_patterns = False
        self._weights: dict[tuple[int, str], tuple[Any, ...]] = {}
        if around is not None:
            self._weights = around._weights
            # Names must differ from the outer graph's.
            self._builder.push_module(name)
        # An input of several matrices is quantized once.
        self._rounded: dict[Any, Any] = {}

    def input(self, name: str, dtype: str, *axes: str) -> Any:
        """Add an input of the model; its axes have names, and any length."""
        return self._builder.input(name, DTYPES[dtype], axes)

    def output(self, name: str, value: Any, *axes: str | int) -> None:
        """Add an output of the model; see `input`. Without axes, any shape."""
        # A value may also be an input, or an output under another name.
        value = self.op.Identity(value)
        value.shape = onnx_ir.Shape(axes) if axes else None
        self._builder.add_output(value, name)

    def typed(self, value: Any, dtype: str) -> Any:
        """Set the dtype of the result of an operation that ONNX does not know."""
        value.dtype = DTYPES[dtype]
        return value

    def cast(self, value: Any, dtype: str) -> Any:
        """Change the dtype of a value."""
        return self.op.Cast(value, to=DTYPES[dtype])

    def constant(self, array: npt.ArrayLike, name: str) -> Any:
        """Store an array in the model."""
        array = np.asarray(array)
        if array.dtype.kind in "OU":
            strings = [str(item).encode() for item in array.ravel()]
            tensor: Any = onnx_ir.StringTensor(
                strings, shape=onnx_ir.Shape(array.shape), name=name
            )
        else:
            tensor = onnx_ir.tensor(array, name=name)
        return self._builder.initializer(tensor)

    def string(self, value: str) -> Any:
        """Return a string constant."""
        return self.op.Constant(value_string=value)

    def integers(self, *parts: Any) -> Any:
        """Join integers and int64 vectors to one vector, such as a shape."""
        vectors = [
            self.op.Constant(value_ints=[part]) if isinstance(part, int) else part
            for part in parts
        ]
        return self.op.Concat(*vectors, axis=0)

    def size(self, value: Any, axis: int) -> Any:
        """Return the length of an axis, int64 `(1,)`."""
        return self.op.Shape(
            value, start=axis, **({} if axis == -1 else {"end": axis + 1})
        )

    def weight(self, variable: Any) -> Any:
        """Return the value of a variable, which is stored only once."""
        key = (id(variable), "float32")
        if key not in self._weights:
            array = keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))
            self._weights[key] = (self.constant(array, variable.path),)
        return self._weights[key][0]

    def _matrix(self, layer: Any, name: str, axis: int) -> tuple[Any, ...]:
        """Store a matrix of a layer; if quantized, in int8 with its scales."""
        key = (id(layer), "int8" if self.quantize else "float32")
        if key not in self._weights:
            array, path = float_weight(layer, name), f"{layer.path}/{name}"
            parts: dict[str, Any] = {path: array}
            if self.quantize:
                parts[path], parts[f"{path}_scale"] = split_int8(array, axis)
            stored = tuple(self.constant(part, key) for key, part in parts.items())
            self._weights[key] = stored
        return self._weights[key]

    def embed(self, layer: Any, ids: Any) -> Any:
        """Look up ids in an embedding. ONNX Runtime fails for unknown ids."""
        table, *scale = self._matrix(layer, "embeddings", axis=1)
        ids = self.without_negative(ids)
        rows = self.op.Gather(table, ids)
        if not scale:
            return rows
        scales = self.op.Unsqueeze(self.op.Gather(scale[0], ids), [-1])
        return self.op.Mul(self.cast(rows, "float32"), scales)

    def without_negative(self, indices: Any) -> Any:
        """Make negative indices, which ONNX counts from the end, too large."""
        return self.op.Where(self.op.Less(indices, 0), 2**31 - 1, indices)

    def score_tokens(self, embedding: Any, x: Any) -> Any:
        """Multiply by the transposed matrix of an embedding, which is stored once."""
        table, *scale = self._matrix(embedding, "embeddings", axis=1)
        return self._multiply(x, self.op.Transpose(table, perm=[1, 0]), *scale)

    def dense(
        self, layer: Any, x: Any, keep_float: bool = False, activate: bool = True
    ) -> Any:
        """Run a `keras.layers.Dense`."""
        if keep_float:
            kernel = float_weight(layer, "kernel")
            x = self.op.MatMul(x, self.constant(kernel, f"{layer.path}/kernel"))
        else:
            x = self._multiply(x, *self._matrix(layer, "kernel", axis=0))
        if layer.use_bias:
            x = self.op.Add(x, self.weight(layer.bias))
        return self.activate(layer.activation, x) if activate else x

    def dense_halves(self, layer: Any, first: Any, second: Any) -> tuple[Any, Any]:
        """Run a dense layer on each half of its input separately."""
        matrix, *scale = self._matrix(layer, "kernel", axis=0)
        halves = self.op.Split(matrix, axis=0, num_outputs=2, _outputs=2)
        parts = zip((first, second), halves, strict=True)
        first, second = (self._multiply(x, half, *scale) for x, half in parts)
        return first, self.op.Add(second, self.weight(layer.bias))

    def _multiply(self, x: Any, matrix: Any, scale: Any = None) -> Any:
        if scale is None:
            return self.op.MatMul(x, matrix)
        # Runtimes fuse this pattern to one operation.
        if x not in self._rounded:
            self._rounded[x] = self.op.DynamicQuantizeLinear(x, _outputs=3)
        x, x_scale, x_zero = self._rounded[x]
        product = self.op.MatMulInteger(x, matrix, x_zero)
        scale = self.op.Mul(x_scale, scale)
        return self.op.Mul(self.cast(product, "float32"), scale)

    def layer_norm(self, layer: Any, x: Any, *differences: Any) -> Any:
        """Run a `LayerNormalization`; `differences` are added to its two vectors."""
        gamma, beta = self.weight(layer.gamma), self.weight(layer.beta)
        if differences:
            gamma, beta = map(self.op.Add, (gamma, beta), differences)
        return self.op.LayerNormalization(x, gamma, beta, epsilon=layer.epsilon)

    def activate(self, function: Callable[..., Any], x: Any) -> Any:
        """Run a Keras activation function."""
        op = self.op
        known: dict[Callable[..., Any], Callable[[Any], Any]] = {
            keras.activations.linear: lambda x: x,
            gelu_approximate: lambda x: op.Gelu(x, approximate="tanh"),
            keras.activations.relu6: lambda x: op.Clip(x, 0.0, 6.0),
            keras.activations.leaky_relu: lambda x: op.LeakyRelu(x, alpha=0.2),
            keras.activations.silu: lambda x: op.Mul(x, op.Sigmoid(x)),
            keras.activations.exponential: op.Exp,
            keras.activations.log_softmax: op.LogSoftmax,
        }
        known |= {
            getattr(keras.activations, name.lower()): getattr(op, name)
            for name in _ACTIVATIONS
        }
        if function not in known:
            names = ", ".join(sorted(each.__name__ for each in known))
            raise ValueError(
                "The ONNX export does not know the activation "
                f"{getattr(function, '__name__', function)!r}. It knows: {names}. "
                "Train with one of them, or export a SavedModel, which takes Keras'."
            )
        return known[function](x)


# The attention bias of padding; finite, so that a row of padding only has no NaN.
_HIDDEN = -1e9

_Own = Callable[..., tuple[Any, ...]] | None


class OnnxBackbone:
    """ALBERT's backbone in ONNX operations."""

    def __init__(self, backbone: Any, builder: OnnxBuilder) -> None:
        self.backbone, self.builder, self.op = backbone, builder, builder.op

    def encode(self, ids: dict[str, Any]) -> Any:
        """Return the `sequence_output` of ids, which are integers `(rows, length)`."""
        x, bias = self.start(ids)
        for layer in range(self.backbone.num_layers):
            x = self.run_layer(x, bias, layer)
        return x

    def start(self, ids: dict[str, Any]) -> tuple[Any, Any]:
        """Return the first layer's input, and the bias of all layers."""
        op, builder, layer = self.op, self.builder, self.backbone.embedding
        tokens = builder.embed(layer.token_embedding, ids["token_ids"])
        positions = builder.weight(layer.position_embedding.position_embeddings)
        # For a row that is too long, the lookup of positions fails in the runtime.
        length = op.Squeeze(builder.size(ids["token_ids"], 1))
        positions = op.Gather(positions, op.Range(0, length, 1))
        segment_ids = ids["segment_ids"]
        if layer.num_segments == 1:
            segment_ids = op.Sub(segment_ids, segment_ids)
        segments = builder.embed(layer.segment_embedding, segment_ids)
        x = op.Add(op.Add(tokens, positions), segments)
        x = builder.layer_norm(layer.layer_norm, x)
        if layer.projection is not None:
            x = builder.dense(layer.projection, x)
        bias = op.Where(builder.cast(ids["padding_mask"], "bool"), 0.0, _HIDDEN)
        # For all heads and all queries.
        return x, op.Unsqueeze(bias, [1, 2])

    def run_layer(self, x: Any, bias: Any, layer: int) -> Any:
        """Run a virtual layer: return its output for `start`'s, or another layer's."""
        op, backbone, encoder = self.op, self.backbone, self.backbone.encoder
        activation = get_activation(backbone.activation)
        group = encoder.group_of(layer, backbone.num_layers)
        for inner, block in enumerate(encoder.group_blocks(group)):
            own = None
            if encoder.adapters is not None:
                number = encoder.run_number(layer, inner, group, backbone.num_layers)
                own = self._own_weights(number)
            x = op.Add(x, self._attend(block, x, bias, own))
            x = self._layer_norm(block.attention_layer_norm, x, own)
            hidden = self._dense(block.feedforward_intermediate, x, own)
            hidden = self.builder.activate(activation, hidden)
            hidden = self._dense(block.feedforward_output, hidden, own)
            x = op.Add(x, hidden)
            x = self._layer_norm(block.feedforward_layer_norm, x, own)
        return x

    def _own_weights(self, number: Any) -> _Own:
        """Return a function from the names of adapters to their values in a run."""
        variables = self.backbone.encoder.adapters.by_name()

        def read(layer: Any, *kinds: str) -> tuple[Any, ...]:
            stacked = (
                self.builder.weight(variables[f"{layer.name}_{kind}"]) for kind in kinds
            )
            return tuple(self.op.Gather(each, number, axis=0) for each in stacked)

        return read

    def _dense(self, layer: Any, x: Any, own: _Own) -> Any:
        op, output = self.op, self.builder.dense(layer, x)
        if own is None:
            return output
        a, b, bias = own(layer, "a", "b", "bias")
        product = op.MatMul(op.MatMul(x, a), b)
        return op.Add(op.Add(output, product), bias)

    def _layer_norm(self, layer: Any, x: Any, own: _Own) -> Any:
        differences = () if own is None else own(layer, "gamma", "beta")
        return self.builder.layer_norm(layer, x, *differences)

    def pool(self, sequence: Any, padding_mask: Any) -> Any:
        """Run the pooler: return the `pooled_output` of a `sequence_output`."""
        backbone = self.backbone
        if backbone.pooler_input == "cls":
            vector = self.op.Gather(sequence, backbone.cls_token_index, axis=1)
        else:
            vector = self.masked_mean(sequence, padding_mask)
        return self.builder.dense(backbone.pooler, vector)

    def normalize(self, vectors: Any) -> Any:
        """Return vectors of length 1, as `keras.ops.normalize` does."""
        # As in Keras, the minimum prevents division by zero.
        length = self.op.ReduceL2(vectors, [1])
        return self.op.Div(vectors, self.op.Max(length, keras.config.epsilon()))

    def masked_mean(
        self, sequence: Any, padding_mask: Any, token_weights: Any = None
    ) -> Any:
        """Return the mean of each sequence `(rows, width)`, as in `MaskedPooling`."""
        op, builder = self.op, self.builder
        is_real = op.Unsqueeze(builder.cast(padding_mask, "bool"), [-1])
        weights = builder.cast(is_real, "float32")
        if token_weights is not None:
            weights = op.Mul(weights, op.Unsqueeze(token_weights, [-1]))
        total = op.Where(is_real, op.Mul(sequence, weights), 0.0)
        total = op.ReduceSum(total, [1], keepdims=0)
        count = op.ReduceSum(weights, [1], keepdims=0)
        return op.Div(total, op.Max(count, keras.config.epsilon()))

    def _attend(self, block: Any, x: Any, bias: Any, own: _Own) -> Any:
        op = self.op
        width = block.query.units
        head_dim = width // block.num_heads

        def split(layer: Any, *order: int) -> Any:
            heads = op.Reshape(
                self._dense(layer, x, own), [0, 0, block.num_heads, head_dim]
            )
            return op.Transpose(heads, perm=order)

        query, value = split(block.query, 0, 2, 1, 3), split(block.value, 0, 2, 1, 3)
        key = split(block.key, 0, 2, 3, 1)
        scores = op.MatMul(op.Mul(query, 1 / math.sqrt(head_dim)), key)
        mixed = op.MatMul(op.Softmax(op.Add(scores, bias), axis=-1), value)
        mixed = op.Reshape(op.Transpose(mixed, perm=[0, 2, 1, 3]), [0, 0, width])
        return self._dense(block.attention_output, mixed, own)


def build_onnx_model(
    task: AlbertTask, inputs: str, pairs: bool, quantize: bool, metadata: dict[str, str]
) -> bytes:
    """Return a checked ONNX file; see `export_onnx` for the arguments."""
    builder = OnnxBuilder(quantize)
    graph = graph_class(task, "onnx")(task, builder)
    if inputs == "text":
        builder.graph.opset_imports[TEXT_DOMAIN] = 1
        graph.from_texts(pairs)
    elif inputs == "transformers":
        graph.from_transformers()
    else:
        graph.from_tokens()
    for node in builder.graph.all_nodes():
        # Source locations of the builder's calls, and shapes that every runtime
        # infers, would take more space than the nodes.
        node.metadata_props.clear()
        for value in node.outputs:
            if not value.is_graph_output():
                value.type = value.shape = None
    model = onnx_ir.Model(
        builder.graph,
        ir_version=IR_VERSION,
        producer_name="keras_albert",
        metadata_props=metadata,
    )
    proto = onnx_ir.to_proto(model)
    onnx.checker.check_model(proto)
    return bytes(proto.SerializeToString())
