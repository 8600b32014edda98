"""Parts of all exports: checks, tables, metadata and weights of tasks."""

import re
import sys
from collections.abc import Sequence
from functools import cache
from pkgutil import resolve_name
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert import tasks
from keras_albert.layers.base_layer import get_activation
from keras_albert.tasks.table import TASKS, TaskRow
from keras_albert.tasks.task import AlbertTask
from keras_albert.text.tags import pattern_of_words, tags_to_spans
from keras_albert.text.tokenizer.text_rules import character_class
from keras_albert.types import FloatArray
from keras_albert.utils.environment import versions
from keras_albert.utils.keras_internals import all_layers


def row_of(task: AlbertTask) -> TaskRow:
    """Return the row of a task; of a subclass, whose changes would be lost, raise."""
    row = TASKS.get(type(task).__name__)
    if row is None or type(task) is not getattr(tasks, row.name):
        known = ", ".join(sorted(TASKS))
        raise ValueError(
            f"{type(task).__name__} cannot be exported. These tasks can, without their "
            f"subclasses: {known}. Build one of them with the same weights."
        )
    return row


def check_activations(task: AlbertTask) -> None:
    """Raise if a class or an activation is a user's, unknown to the other process."""
    row_of(task)
    for layer in all_layers(task):
        function = get_activation(getattr(layer, "activation", None) or "linear")
        if function.__module__.partition(".")[0] not in ("keras", "keras_albert"):
            raise ValueError(
                f"The layer {layer.path} has the activation "
                f"{getattr(function, '__name__', function)!r}, but an export can only "
                "contain those of `keras.activations`. Train with one of them, or "
                "predict in Python."
            )


def check_tokenizer(task: AlbertTask, name: str) -> None:
    """Check that an export, by its name, can contain the vocabulary of a task."""
    if task.preprocessor is None:
        raise ValueError(
            f"{name} tokenizes texts, but this task has no preprocessor. Build it with "
            "one."
        )
    task.preprocessor.tokenizer.vocabulary_size()  # Raises without a vocabulary.
    length = task.preprocessor.tokenizer.sequence_length
    if length is not None:
        raise ValueError(
            "An exported model tokenizes whole texts, but this tokenizer truncates "
            f"them to {length} tokens. Build it without `sequence_length`; the "
            "preprocessor truncates rows."
        )


def graph_class(task: AlbertTask, package: str) -> Any:
    """Return the graph class of a task in `"saved_model"` or `"onnx"`."""
    # Imported when needed, because graphs require TensorFlow or onnx.
    return resolve_name(f"{__package__}.{package}.{row_of(task).graph}")


def describe_model(task: AlbertTask, inputs: str) -> dict[str, Any]:
    """Describe a task, with `"tokens"` or `"text"` as inputs, for an exported file."""
    preprocessor, backbone = task.preprocessor, task.backbone
    longest = backbone.max_sequence_length
    described: dict[str, Any] = {
        "task": type(task).__name__,
        "inputs": inputs,
        "vocabulary_size": backbone.vocabulary_size,
        "max_length": longest if preprocessor is None else preprocessor.max_length,
        "parameters": task.count_params(),
        "versions": versions(),
    }
    labels = list(getattr(task, "class_names", None) or ())
    return described | ({"labels": labels} if labels else {})


# The default of `fill_mask`.
TOP_K = 5

# The default of `answer`.
MAX_ANSWER_LENGTH = 30

# Only positions that the model masks have log-probabilities as low as this.
IMPOSSIBLE = -1e20

# Windows per batch, so that a long document does not exhaust memory.
WINDOWS_AT_ONCE = 64

# Python's whitespace, for regular expressions.
SPACES = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))


@cache
def word_pattern() -> str:
    """Return the pattern of words for RE2, which has no names of Python's classes."""
    codes = (code for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)
    characters = "".join(map(chr, codes))
    return pattern_of_words(
        lambda kind: character_class(map(ord, re.findall(f"[{kind}]", characters)))
    )


def token_names(tokenizer: Any) -> list[str]:
    """Return the text of each token, as in `fill_mask`."""
    return [text.removeprefix(" ") for text in tokenizer.vocabulary.texts]


def entity_tables(names: Sequence[str]) -> tuple[list[str], list[list[bool]]]:
    """Return the label of each tag, and which two tags form one entity."""
    labels = ["".join(s.label for s in tags_to_spans([name])) for name in names]
    joins = [
        [[s.end - s.start for s in tags_to_spans([a, b])] == [2] for b in names]
        for a in names
    ]
    return labels, joins


_MAX_INT8 = 64


def float_task(task: AlbertTask) -> Any:
    """Return a task in float32: itself if it is, else one without a preprocessor."""
    layers = {layer.path: layer for layer in all_layers(task)}
    if {layer.dtype_policy.name for layer in layers.values()} == {"float32"}:
        return task
    config = task.get_config() | {"preprocessor": None}
    config["backbone"]["config"]["dtype"] = "float32"
    config["backbone"]["config"].pop("quantized_dtype", None)
    copy = type(task).from_config(config)
    # A layer and its variables may have different paths.
    variables = {variable.path: variable for variable in task.variables}
    dense = keras.layers.Dense, keras.layers.Embedding
    for variable in copy.weights:
        path, _, name = variable.path.rpartition("/")
        is_matrix = name in ("kernel", "embeddings")
        if is_matrix and isinstance(layers.get(path), dense):
            variable.assign(float_weight(layers[path], name))
        else:
            variable.assign(_read(variables[variable.path]))
    return copy


def float_weight(layer: Any, name: str) -> FloatArray:
    """Return a matrix of a layer in float32, also of int8, with LoRA's update."""
    mode = layer.quantization_mode
    if mode not in (None, "int8"):
        raise ValueError(
            f"The layer {layer.path} is quantized to {mode!r}, and weights in floating "
            "point or int8 can be exported. Export the model before it is quantized; "
            'the format may have an argument `quantize="int8"`.'
        )
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
    """Split a matrix into int8 numbers and scales, of which `axis` shares one."""
    # Limited to -64 to 64: processors without VNNI add two products with numbers up to
    # 255 in 16 bits. Source: [Quantize ONNX
    # Models](https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html),
    # "When and why do I need to try U8U8?".
    largest = np.abs(matrix).max(axis=axis, keepdims=True)
    scale = np.where(largest > 0, largest, 1.0) / _MAX_INT8
    numbers = np.rint(matrix / scale).astype(np.int8)
    return numbers, scale.squeeze(axis).astype(np.float32)


def _read(variable: Any) -> FloatArray:
    return keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))
