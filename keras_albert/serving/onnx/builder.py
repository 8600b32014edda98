"""Building ONNX graphs from Keras layers."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
import onnx_ir
from onnxscript import GraphBuilder

from keras_albert.layers.run_layers import gelu_approximate
from keras_albert.serving.layer_weights import float_weight, split_int8

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


class OnnxBuilder:
    """A builder of an ONNX graph.

    Attributes:
        op: ONNX operations as methods, `op.Add(x, 1)`; arguments may be numbers and
            lists of numbers instead of tensors.
        texts: The operations of onnxruntime-extensions, likewise.
        tables: The operations of ONNX for tables, likewise.
    """

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
        self._weights: dict[tuple[int, str], tuple[Any, ...]] = {}
        if around is not None:
            self._weights = around._weights
            # Names must differ from those of the outer graph.
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
        """Look up ids in an embedding. ONNX Runtime fails for an id that it lacks."""
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

    def dense(self, layer: Any, x: Any, keep_float: bool = False) -> Any:
        """Run a `keras.layers.Dense`."""
        x = self._linear(layer, x, keep_float)
        if layer.use_bias:
            x = self.op.Add(x, self.weight(layer.bias))
        return self.activate(layer.activation, x)

    def dense_halves(self, layer: Any, first: Any, second: Any) -> tuple[Any, Any]:
        """Run a dense layer on each half of its input separately."""
        matrix, *scale = self._matrix(layer, "kernel", axis=0)
        halves = self.op.Split(matrix, axis=0, num_outputs=2, _outputs=2)
        parts = zip((first, second), halves, strict=True)
        first, second = (self._multiply(x, half, *scale) for x, half in parts)
        return first, self.op.Add(second, self.weight(layer.bias))

    def _linear(self, layer: Any, x: Any, keep_float: bool) -> Any:
        if keep_float:
            kernel = float_weight(layer, "kernel")
            return self.op.MatMul(x, self.constant(kernel, f"{layer.path}/kernel"))
        return self._multiply(x, *self._matrix(layer, "kernel", axis=0))

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
        """Run a `keras.layers.LayerNormalization` over the last axis.

        With `differences`, two vectors, they are added to its own.
        """
        gamma, beta = self.weight(layer.gamma), self.weight(layer.beta)
        if differences:
            gamma, beta = map(self.op.Add, (gamma, beta), differences)
        return self.op.LayerNormalization(x, gamma, beta, epsilon=layer.epsilon)

    def activate(self, function: Callable[..., Any], x: Any) -> Any:
        """Run a Keras activation function."""
        op = self.op
        known: dict[Callable[..., Any], Callable[[], Any]] = {
            keras.activations.linear: lambda: x,
            gelu_approximate: lambda: op.Gelu(x, approximate="tanh"),
            keras.activations.gelu: lambda: op.Gelu(x),
            keras.activations.relu: lambda: op.Relu(x),
            keras.activations.relu6: lambda: op.Clip(x, 0.0, 6.0),
            keras.activations.leaky_relu: lambda: op.LeakyRelu(x, alpha=0.2),
            keras.activations.elu: lambda: op.Elu(x),
            keras.activations.selu: lambda: op.Selu(x),
            keras.activations.silu: lambda: op.Mul(x, op.Sigmoid(x)),
            keras.activations.mish: lambda: op.Mish(x),
            keras.activations.softplus: lambda: op.Softplus(x),
            keras.activations.softsign: lambda: op.Softsign(x),
            keras.activations.tanh: lambda: op.Tanh(x),
            keras.activations.sigmoid: lambda: op.Sigmoid(x),
            keras.activations.exponential: lambda: op.Exp(x),
            keras.activations.softmax: lambda: op.Softmax(x),
            keras.activations.log_softmax: lambda: op.LogSoftmax(x),
        }
        if function not in known:
            names = ", ".join(sorted(known_one.__name__ for known_one in known))
            msg = (
                "The ONNX export does not know the activation "
                f"{getattr(function, '__name__', function)!r}. It knows: {names}. "
                "Export a model with one of them, or a SavedModel, which takes any."
            )
            raise ValueError(msg)
        return known[function]()

    def join(self, values: Sequence[Any], axis: int) -> Any:
        """Concatenate tensors."""
        return self.op.Concat(*values, axis=axis)
