"""Weights as float32, and as int8, for other runtimes."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.types import FloatArray
from keras_albert.utils.keras_internals import all_layers

_LARGEST = 64
_MATRICES = ("kernel", "embeddings")


def float_task(task: Any) -> Any:
    """Return a task in float32: itself if it is, else one without a preprocessor."""
    layers = {layer.path: layer for layer in all_layers(task)}
    if {layer.dtype_policy.name for layer in layers.values()} == {"float32"}:
        return task
    config = task.get_config() | {"preprocessor": None}
    config["backbone"]["config"]["dtype"] = "float32"
    config["backbone"]["config"].pop("quantized_dtype", None)
    copy = type(task).from_config(config)
    for variable in copy.weights:
        path, _, name = variable.path.rpartition("/")
        variable.assign(_read_layer(layers[path], name))
    return copy


def _read_layer(layer: Any, name: str) -> FloatArray:
    dense = keras.layers.Dense, keras.layers.Embedding
    if isinstance(layer, dense) and name in _MATRICES:
        return float_weight(layer, name)
    (variable,) = (v for v in layer.variables if v.path == f"{layer.path}/{name}")
    return _read(variable)


def float_weight(layer: Any, name: str) -> FloatArray:
    """Return a matrix of a layer in float32, also of int8, with LoRA's update."""
    mode = layer.quantization_mode
    if mode not in (None, "int8"):
        msg = (
            f"The layer {layer.path} is quantized to {mode!r}, and weights in floating "
            "point or int8 can be exported. Export the model before it is quantized; "
            'the format may have an argument `quantize="int8"`.'
        )
        raise ValueError(msg)
    # The variable itself: the layer's property adds LoRA's update to int8 numbers.
    (variable,) = (v for v in layer.variables if v.name == name)
    values = _read(variable)
    if mode == "int8":
        # One scale for each output of a kernel, or each row of an embedding.
        scale = _read(getattr(layer, f"{name}_scale"))
        values = values / (scale if name == "kernel" else scale[:, None])
    if layer.lora_enabled:
        low, high = (_read(getattr(layer, f"lora_{name}_{part}")) for part in "ab")
        values = values + (layer.lora_alpha / layer.lora_rank) * (low @ high)
    return np.asarray(values, np.float32)


def split_int8(
    matrix: FloatArray, axis: int
) -> tuple[npt.NDArray[np.int8], FloatArray]:
    """Split a matrix into int8 numbers and scales, of which `axis` shares one.

    The numbers are limited to -64 to 64, because processors without VNNI add two
    products with numbers up to 255 in 16 bits, where larger ones would saturate.

    Source: [Quantize ONNX Models](https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html),
    "When and why do I need to try U8U8?".
    """
    largest = np.abs(matrix).max(axis=axis, keepdims=True)
    scale = np.where(largest > 0, largest, 1.0) / _LARGEST
    numbers = np.rint(matrix / scale).astype(np.int8)
    return numbers, scale.squeeze(axis).astype(np.float32)


def _read(variable: Any) -> FloatArray:
    array: FloatArray = keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))
    return array
