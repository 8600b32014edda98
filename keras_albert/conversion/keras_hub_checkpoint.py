"""KerasHub's own ALBERT presets and models."""

from pathlib import Path
from typing import Any

import keras_hub

from keras_albert.backbone import AlbertBackbone
from keras_albert.conversion.transformers_config import read_json
from keras_albert.conversion.weight_table import (
    Row,
    dump_weights,
    load_weights,
    split_first,
    split_last,
    variables_by_path,
)
from keras_albert.layers.activations import gelu_approximate, get_activation
from keras_albert.presets.checkpoint_formats import CheckpointFormat
from keras_albert.presets.stored_weights import check_stored_weights, weights_path

# Presets written before the library was renamed carry its old name.
_REGISTERED_NAMES = ("keras_hub>AlbertBackbone", "keras_nlp>AlbertBackbone")

_VOCABULARY_FILES = ("assets/tokenizer/vocabulary.spm", "vocabulary.spm")

# What their constructor takes, each by the same name here.
_ARGUMENTS = (
    "vocabulary_size",
    "num_layers",
    "num_heads",
    "embedding_dim",
    "hidden_dim",
    "intermediate_dim",
    "num_groups",
    "num_inner_repetitions",
    "dropout",
    "max_sequence_length",
    "num_segments",
)
_LAYER_NORM_EPSILON = 1e-12

_DENSE = ("kernel", "bias")
_NORM = ("gamma", "beta")

_OUTSIDE_BLOCKS = (
    Row("embedding/token_embedding/embeddings", "token_embedding/embeddings"),
    Row("embedding/position_embedding/embeddings", "position_embedding/embeddings"),
    Row("embedding/segment_embedding/embeddings", "segment_embedding/embeddings"),
    Row("embedding/layer_norm/gamma", "embeddings_layer_norm/gamma"),
    Row("embedding/layer_norm/beta", "embeddings_layer_norm/beta"),
    Row("embedding/projection/kernel", "embedding_projection/kernel"),
    Row("embedding/projection/bias", "embedding_projection/bias"),
    Row("pooler/kernel", "pooled_dense/kernel"),
    Row("pooler/bias", "pooled_dense/bias"),
)


def backbone_rows(backbone: AlbertBackbone) -> list[Row]:
    """Give the table of a backbone.

    Args:
        backbone: `AlbertBackbone`, or KerasHub's: says how many groups, blocks and
            heads there are.

    Returns:
        The rows; their names are the paths of KerasHub's variables.
    """
    rows = list(_OUTSIDE_BLOCKS)
    for group in range(backbone.num_groups):
        for inner in range(backbone.num_inner_repetitions):
            rows += _block_rows(
                f"encoder/group_{group}_block_{inner}/",
                f"group_{group}_inner_layer_{inner}/",
                backbone.num_heads,
            )
    return rows


def _block_rows(ours: str, theirs: str, num_heads: int) -> list[Row]:
    attention = theirs + "self_attention_layer/"
    # Their heads have an axis of their own; ours are side by side in one matrix.
    into_heads, from_heads = split_last(num_heads), split_first(num_heads)
    rows = []
    for name in ("query", "key", "value"):
        rows += [
            Row(f"{ours}{name}/kernel", f"{attention}{name}/kernel", into_heads),
            Row(f"{ours}{name}/bias", f"{attention}{name}/bias", into_heads),
        ]
    output = "attention_output/"
    rows += [
        Row(f"{ours}{output}kernel", f"{attention}{output}kernel", from_heads),
        Row(f"{ours}{output}bias", f"{attention}{output}bias"),
    ]
    for our_layer, their_layer, weights in (
        ("attention_layer_norm", "self_attention_layer_norm", _NORM),
        ("feedforward_layer_norm", "feedforward_layer_norm", _NORM),
        ("feedforward_intermediate", "feedforward_intermediate_dense", _DENSE),
        ("feedforward_output", "feedforward_output_dense", _DENSE),
    ):
        rows += [
            Row(f"{ours}{our_layer}/{weight}", f"{theirs}{their_layer}/{weight}")
            for weight in weights
        ]
    return rows


def from_keras_hub(
    theirs: keras_hub.models.AlbertBackbone, **kwargs: Any
) -> AlbertBackbone:
    """Make our backbone from KerasHub's, weights included.

    Args:
        theirs: `keras_hub.models.AlbertBackbone`.
        **kwargs: Arguments of `AlbertBackbone` that are to differ.

    Returns:
        A backbone that computes the same.

    Raises:
        ValueError: If weights are quantized or not finite, or an argument changes
            the shapes.
    """
    ours = AlbertBackbone(**(_our_arguments(theirs.get_config()) | kwargs))
    tensors = dump_weights(theirs, _own_rows(theirs))
    load_weights(ours, tensors, backbone_rows(theirs), source=theirs.name)
    return ours


def to_keras_hub(ours: AlbertBackbone) -> keras_hub.models.AlbertBackbone:
    """Make KerasHub's backbone from ours, weights included.

    Args:
        ours: `AlbertBackbone`.

    Returns:
        A backbone of KerasHub that computes the same. It has one rate for all
        dropouts; that of attention is lost where it differs.

    Raises:
        ValueError: If KerasHub's backbone cannot compute what ours does, or weights
            are quantized or not finite.
    """
    fits = {
        "activation": get_activation(ours.activation) is gelu_approximate,
        "layer_norm_epsilon": ours.layer_norm_epsilon == _LAYER_NORM_EPSILON,
        "num_groups": ours.num_layers % ours.num_groups == 0,
    }
    unfit = [f"{name}={getattr(ours, name)!r}" for name in fits if not fits[name]]
    if unfit:
        msg = (
            "KerasHub's ALBERT computes the tanh form of GELU, a LayerNorm with "
            f"epsilon {_LAYER_NORM_EPSILON}, and groups of equal depth. Received: "
            f"{', '.join(unfit)}. Save the model as a preset of keras_albert instead."
        )
        raise ValueError(msg)
    tensors = dump_weights(ours, backbone_rows(ours))
    theirs = keras_hub.models.AlbertBackbone(
        **{name: getattr(ours, name) for name in _ARGUMENTS}
    )
    load_weights(theirs, tensors, _own_rows(theirs), source=ours.name)
    return theirs


def _own_rows(theirs: keras_hub.models.AlbertBackbone) -> list[Row]:
    return [Row(path, path) for path in variables_by_path(theirs)]


def _our_arguments(config: dict[str, Any]) -> dict[str, Any]:
    """Translate their constructor's arguments."""
    arguments = {name: config[name] for name in _ARGUMENTS if name in config}
    return arguments | {
        # One rate serves all dropouts there.
        "attention_dropout": config.get("dropout", 0.0),
        "activation": "gelu_approximate",
        "layer_norm_epsilon": _LAYER_NORM_EPSILON,
        # KerasHub always projects.
        "use_embedding_projection": True,
    }


def recognizes(directory: Path) -> bool:
    """Say whether a directory is a preset of KerasHub's ALBERT."""
    config = read_json(directory / "config.json")
    return config is not None and config.get("registered_name") in _REGISTERED_NAMES


def load_backbone(
    directory: Path, load_weights: bool = True, **kwargs: Any
) -> AlbertBackbone:
    """Build a backbone from a preset of KerasHub's.

    Args:
        directory: Path. What `save_to_preset` of KerasHub wrote.
        load_weights: bool. `False` for random weights. Defaults to `True`.
        **kwargs: Arguments of `AlbertBackbone` that are to differ from the config.

    Returns:
        The backbone.

    Raises:
        ValueError: If files are missing, damaged or do not fit each other, or the
            weights are quantized.
    """
    path = directory / "config.json"
    config = (read_json(path) or {}).get("config")
    if not isinstance(config, dict):
        msg = f"{path} is damaged: it holds no `config`. Copy or download it again."
        raise ValueError(msg)
    if not load_weights:
        return AlbertBackbone(**(_our_arguments(config) | kwargs))
    dtype = config.get("dtype")
    if isinstance(dtype, dict) and dtype.get("class_name") != "DTypePolicy":
        msg = (
            f"{directory} holds quantized weights ({dtype.get('class_name')}), and "
            "other layers quantize differently. Use the preset in floating point and "
            "call `quantize` on the model."
        )
        raise ValueError(msg)
    path = weights_path(directory)
    try:
        theirs = keras_hub.models.AlbertBackbone.from_preset(
            str(directory), load_weights=False, dtype="float32"
        )
        check_stored_weights(theirs, path)
        theirs.load_weights(str(path))
    except (KeyError, OSError, TypeError, ValueError) as error:
        msg = (
            f"{directory} could not be loaded as KerasHub's ALBERT: its files are "
            f"missing, damaged or do not fit each other ({error}). Copy or download "
            "the preset again."
        )
        raise ValueError(msg) from error
    backbone = from_keras_hub(theirs, **kwargs)
    backbone.pretrained = True
    return backbone


def read_vocabulary(directory: Path) -> bytes:
    """Read the SentencePiece model of a preset.

    Args:
        directory: Path. What `save_to_preset` of KerasHub wrote.

    Returns:
        The bytes of the vocabulary.

    Raises:
        ValueError: If the preset has none.
    """
    for name in _VOCABULARY_FILES:
        if (directory / name).is_file():
            return (directory / name).read_bytes()
    msg = (
        f"{directory} holds no `{_VOCABULARY_FILES[0]}`, the vocabulary. Save the "
        "tokenizer into the preset as well (`tokenizer.save_to_preset`), or pass a "
        "`tokenizer` or `preprocessor` of your own."
    )
    raise ValueError(msg)


KERAS_HUB = CheckpointFormat(
    name="KerasHub",
    recognizes=recognizes,
    load_backbone=load_backbone,
    read_vocabulary=read_vocabulary,
)
