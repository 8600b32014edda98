"""Converting tasks to float32."""

from typing import Any

import keras

from keras_albert.serving.layer_weights import float_weight
from keras_albert.types import FloatArray
from keras_albert.utils.keras_internals import all_layers

_MATRICES = ("kernel", "embeddings")


def float_task(task: Any) -> Any:
    """Return a task that computes in float32, with the same weights.

    Args:
        task: A task of any dtype policy, possibly quantized to int8.

    Returns:
        The task itself if it is in float32; otherwise a new one without a
        preprocessor.

    Raises:
        ValueError: If the task is quantized to a type other than int8.

    Example:
        >>> from keras_albert import AlbertBackbone, AlbertClassifier
        >>> sizes = dict(num_layers=2, num_heads=2, embedding_dim=4, hidden_dim=8)
        >>> backbone = AlbertBackbone(30, intermediate_dim=16, **sizes)
        >>> classifier = AlbertClassifier(backbone, num_classes=2)
        >>> classifier.quantize("int8")
        >>> {variable.dtype for variable in float_task(classifier).weights}
        {'float32'}
    """
    layers = {layer.path: layer for layer in all_layers(task)}
    if {layer.dtype_policy.name for layer in layers.values()} == {"float32"}:
        return task
    config = task.get_config() | {"preprocessor": None}
    config["backbone"]["config"]["dtype"] = "float32"
    config["backbone"]["config"].pop("quantized_dtype", None)
    copy = type(task).from_config(config)
    for variable in copy.weights:
        path, _, name = variable.path.rpartition("/")
        variable.assign(_read(layers[path], name))
    return copy


def _read(layer: Any, name: str) -> FloatArray:
    dense = keras.layers.Dense, keras.layers.Embedding
    if isinstance(layer, dense) and name in _MATRICES:
        return float_weight(layer, name)
    (variable,) = (v for v in layer.variables if v.path == f"{layer.path}/{name}")
    array: FloatArray = keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))
    return array
