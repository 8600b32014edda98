"""Copies of models: on another backbone, at another depth, with merged adapters."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar, cast

import keras
from keras import ops

from keras_albert.backbone import AlbertBackbone
from keras_albert.presets.weight_files import head_weights
from keras_albert.types import FloatArray, Task
from keras_albert.utils.keras_internals import all_layers

_Model = TypeVar("_Model")


def merge_adapters(model: _Model) -> _Model:
    """Return a model with equal outputs, and with weights of its own for each layer.

    The adapters of each layer are added to the weights that it shares, so that other
    libraries can run the model. It has as many weights as a BERT. `model` is not
    changed.

    Args:
        model: `AlbertBackbone` or a task.

    Returns:
        A model of the class of `model`, with `num_groups == num_layers`; `model` itself
        if it has no `adapter_rank`.

    Raises:
        TypeError: If `model` is neither a backbone nor a task.
        ValueError: If `model` is quantized, or has LoRA weights.

    Example:
        >>> from keras_albert import AlbertBackbone, merge_adapters
        >>> backbone = AlbertBackbone(
        ...     vocabulary_size=100, num_layers=4, num_heads=2, embedding_dim=8,
        ...     hidden_dim=16, intermediate_dim=32, adapter_rank=2)
        >>> merged = merge_adapters(backbone)
        >>> merged.num_groups, merged.adapter_rank
        (4, None)
    """
    backbone = own_backbone(model)
    if backbone.adapter_rank is None:
        return model
    check_is_float(backbone)
    sizes = {"num_groups": backbone.num_layers, "adapter_rank": None}
    merged = AlbertBackbone.from_config(backbone.get_config() | sizes)
    copy_weights(backbone.embedding, merged.embedding)
    copy_weights(backbone.pooler, merged.pooler)
    for layer in range(backbone.num_layers):
        blocks = merged.encoder.group_blocks(layer)
        own = backbone.encoder.layer_weights(layer, backbone.num_layers)
        for block, weights in zip(blocks, own, strict=True):
            block.set_weights(weights)
    merged.pretrained, merged.loaded_from = backbone.pretrained, backbone.loaded_from
    return with_backbone(model, merged)


def own_backbone(model: Any) -> AlbertBackbone:
    """Return the backbone of a task, or a backbone itself."""
    backbone = getattr(model, "backbone", model)
    if not isinstance(backbone, AlbertBackbone):
        raise TypeError(
            "Expected an `AlbertBackbone` or a task with one. Received: "
            f"model={type(model).__name__}"
        )
    return backbone


def check_is_float(backbone: AlbertBackbone) -> None:
    """Raise if a backbone has other weights than its matrices and vectors of floats."""
    for layer in all_layers(backbone):
        if layer.quantization_mode:
            raise ValueError(
                f"The layer {layer.path!r} is quantized to {layer.quantization_mode}. "
                "Pass the model as it was before `quantize`."
            )
        if getattr(layer, "lora_enabled", False):
            raise ValueError(
                f"The layer {layer.path!r} has LoRA weights. Save the model, and load "
                "it again: a file contains LoRA's update inside the matrices."
            )


def copy_weights(old: keras.layers.Layer, new: keras.layers.Layer) -> None:
    """Copy the weights of a layer to another one with the same shapes."""
    for source, target in zip(old.weights, new.weights, strict=True):
        target.assign(ops.convert_to_numpy(source))


def remake(task: Task, **changed: Any) -> Any:
    """Return a task of the same configuration, but for some arguments; new weights."""
    config = {k: v for k, v in task.get_config().items() if k not in changed}
    return type(task)(**keras.saving.deserialize_keras_object(config), **changed)


def with_backbone(
    model: _Model,
    backbone: AlbertBackbone,
    tokenizer: Any = None,
    map_tokens: Callable[[FloatArray], FloatArray] | None = None,
) -> _Model:
    """Return a model like another one, on another backbone."""
    if isinstance(model, AlbertBackbone):
        return cast("_Model", backbone)
    task: Any = model
    preprocessor = task.preprocessor
    if tokenizer is not None:
        settings = preprocessor.get_config() | {"tokenizer": tokenizer}
        preprocessor = type(preprocessor).from_config(settings)
    new = remake(task, backbone=backbone, preprocessor=preprocessor)
    changed = []
    pairs = zip(head_weights(task), head_weights(new), strict=True)
    for old_weight, new_weight in pairs:
        of_tokens = tuple(old_weight.shape) == (task.backbone.vocabulary_size,)
        if of_tokens and map_tokens is not None:
            # The constructor has set those that a tokenizer determines.
            if old_weight.trainable:
                new_weight.assign(map_tokens(ops.convert_to_numpy(old_weight)))
        elif old_weight.shape == new_weight.shape:
            new_weight.assign(ops.convert_to_numpy(old_weight))
        else:
            changed.append(new_weight.path)
    if changed:
        warnings.warn(
            "These weights of the head depend on the width of the embeddings and are "
            f"new: {', '.join(changed)}. Train the model before you use them.",
            stacklevel=3,
        )
    return cast("_Model", new)
