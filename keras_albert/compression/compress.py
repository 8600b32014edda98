"""A smaller model that begins with the weights of a trained one."""

import warnings
from typing import Any, TypeVar, cast

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.compression.factorization import factorize
from keras_albert.utils.arguments import check_positive
from keras_albert.utils.keras_internals import all_layers

_Model = TypeVar("_Model")


def compress(
    model: _Model,
    *,
    num_groups: int | None = None,
    embedding_dim: int | None = None,
    num_layers: int | None = None,
    token_counts: npt.ArrayLike | None = None,
    seed: int = 0,
) -> _Model:
    """Return a smaller model of the same class that starts from a trained one.

    A BERT is an ALBERT whose layers share nothing (`num_groups == num_layers`) and
    whose embeddings are as wide as its layers. This function turns both down: layers
    of a group get the mean of their weights, embeddings the principal directions of the
    trained ones. The result keeps a good part of what the model learned, and needs some
    training: distill it, or fine-tune it. `model` is not changed.

    Source: the starts of [Bae et al., 2025](https://arxiv.org/abs/2410.20672), for
    shared layers.

    Args:
        model: `AlbertBackbone` or a task: ALBERT, or BERT or ELECTRA in these classes.
        num_groups: int. Groups of layers that share weights; must divide the number of
            layers. Defaults to `None`, the groups of `model`.
        embedding_dim: int. The width of the embeddings, at most that of `model`.
            Defaults to `None`, the width of `model`.
        num_layers: int. The number of layers, at most that of `model`, whose layers are
            taken at equal distances, the first and the last among them. Defaults to
            `None`, all.
        token_counts: Array `(vocabulary_size,)`. How often each token occurs in typical
            texts, so that frequent tokens are reproduced better. Defaults to `None`,
            which weighs all tokens alike.
        seed: int. Seed of the sample of tokens to which the embeddings are fitted.
            Defaults to `0`.

    Returns:
        A model of the class of `model`, with its preprocessor and, for a task, its
        labels and the weights of its head.

    Raises:
        TypeError: If `model` is neither a backbone nor a task.
        ValueError: If a number is above that of `model`, or below 1; if `num_groups`
            does not divide the layers; if `token_counts` does not fit the vocabulary;
            if `model` is quantized.

    Example:
        >>> from keras_albert import AlbertBackbone, compress
        >>> bert = AlbertBackbone(
        ...     vocabulary_size=100, num_layers=4, num_heads=2, embedding_dim=16,
        ...     hidden_dim=16, intermediate_dim=32, num_groups=4)
        >>> albert = compress(bert, num_groups=2, embedding_dim=8)
        >>> bert.count_params(), albert.count_params()
        (19024, 9792)
    """
    backbone = model if isinstance(model, AlbertBackbone) else None
    if backbone is None:
        backbone = getattr(model, "backbone", None)
    if not isinstance(backbone, AlbertBackbone):
        msg = (
            "`compress` takes an `AlbertBackbone` or a task with one. Received: "
            f"model={type(model).__name__}"
        )
        raise TypeError(msg)
    sizes = _check_sizes(backbone, num_groups, embedding_dim, num_layers)
    counts = _check_counts(token_counts, backbone.vocabulary_size)
    if any(each.quantization_mode for each in all_layers(backbone)):
        msg = (
            "A quantized model cannot be compressed. Compress the model before "
            "`quantize`."
        )
        raise ValueError(msg)
    small = AlbertBackbone.from_config(backbone.get_config() | sizes)
    _copy_embedding(backbone, small, counts, seed)
    _merge_layers(backbone, small)
    _copy_weights(backbone.pooler, small.pooler)
    small.pretrained = backbone.pretrained
    if isinstance(model, AlbertBackbone):
        return cast("_Model", small)
    return cast("_Model", _with_head(model, small))


def _check_sizes(
    backbone: AlbertBackbone,
    num_groups: int | None,
    embedding_dim: int | None,
    num_layers: int | None,
) -> dict[str, int]:
    """Return the sizes of the new backbone, checked against the old one."""
    given = {
        "num_layers": num_layers,
        "num_groups": num_groups,
        "embedding_dim": embedding_dim,
    }
    sizes: dict[str, int] = {}
    for name, number in given.items():
        own = getattr(backbone, name)
        if number is None:
            sizes[name] = own
            continue
        check_positive(**{name: number})
        if number > own:
            msg = (
                f"`{name}` can only be reduced, and the model's is {own}. Received: "
                f"{name}={number}"
            )
            raise ValueError(msg)
        sizes[name] = number
    if num_groups is None and num_layers is not None:
        # As many layers to a group as before.
        sizes["num_groups"] = max(
            1, backbone.num_groups * num_layers // backbone.num_layers
        )
    if sizes["num_layers"] % sizes["num_groups"]:
        msg = (
            "`num_groups` must divide the number of layers. Received: num_groups="
            f"{sizes['num_groups']}, and num_layers={sizes['num_layers']}"
        )
        raise ValueError(msg)
    return sizes


def _check_counts(
    token_counts: npt.ArrayLike | None, vocabulary_size: int
) -> npt.NDArray[np.float64] | None:
    if token_counts is None:
        return None
    counts = np.asarray(token_counts, float)
    if counts.shape != (vocabulary_size,):
        msg = (
            f"`token_counts` needs a number for each of the {vocabulary_size} tokens. "
            f"Received an array of shape {counts.shape}."
        )
        raise ValueError(msg)
    if not (np.isfinite(counts).all() and (counts >= 0).all() and counts.any()):
        msg = "`token_counts` must be finite, not negative, and not all 0."
        raise ValueError(msg)
    return counts


def _copy_embedding(
    backbone: AlbertBackbone, small: AlbertBackbone, counts: Any, seed: int
) -> None:
    old: Any = backbone.embedding
    new: Any = small.embedding
    if new.embedding_dim == old.embedding_dim:
        _copy_weights(old, new)
        return
    factors = factorize(old, new.embedding_dim, counts, seed)
    variables = (
        new.token_embedding.embeddings,
        new.position_embedding.position_embeddings,
        new.segment_embedding.embeddings,
        *(new.layer_norm.gamma, new.layer_norm.beta),
        *(new.projection.kernel, new.projection.bias),
    )
    for variable, value in zip(variables, factors, strict=True):
        variable.assign(value.astype("float32"))


def _copy_weights(old: keras.layers.Layer, new: keras.layers.Layer) -> None:
    for source, target in zip(old.weights, new.weights, strict=True):
        target.assign(ops.convert_to_numpy(source))


def _merge_layers(backbone: AlbertBackbone, small: AlbertBackbone) -> None:
    """Set the blocks of each group to the mean of the layers that it stands for."""
    old, new = backbone.encoder, small.encoder
    places = np.linspace(0, old.num_layers - 1, new.num_layers).round().astype(int)
    for group in range(new.num_groups):
        members = [
            old.group_blocks(old.group_of(int(place)))
            for layer, place in enumerate(places)
            if new.group_of(layer) == group
        ]
        for inner, block in enumerate(new.group_blocks(group)):
            merged = zip(*(member[inner].weights for member in members), strict=True)
            for weight, values in zip(block.weights, merged, strict=True):
                arrays = [ops.convert_to_numpy(value) for value in values]
                weight.assign(np.mean(arrays, axis=0))


def _with_head(task: Any, small: AlbertBackbone) -> Any:
    """Return a task like `task` on another backbone, with the weights of its head."""
    config = task.get_config()
    kept = {k: v for k, v in config.items() if k not in ("backbone", "preprocessor")}
    new = type(task)(
        backbone=small,
        preprocessor=task.preprocessor,
        **keras.saving.deserialize_keras_object(kept),
    )
    inside, new_inside = ({id(w) for w in m.weights} for m in (task.backbone, small))
    head = [w for w in task.weights if id(w) not in inside]
    new_head = [w for w in new.weights if id(w) not in new_inside]
    changed = []
    for old_weight, new_weight in zip(head, new_head, strict=True):
        if old_weight.shape == new_weight.shape:
            new_weight.assign(ops.convert_to_numpy(old_weight))
        else:
            changed.append(new_weight.path)
    if changed:
        warnings.warn(
            "These weights of the head depend on the width of the embeddings and are "
            f"new: {', '.join(changed)}. Train the model before you use them.",
            stacklevel=3,
        )
    return new
