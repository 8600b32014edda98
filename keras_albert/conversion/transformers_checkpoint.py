"""Hugging Face transformers' ALBERT checkpoints."""

import warnings
from pathlib import Path
from typing import Any

from keras_albert.backbone import AlbertBackbone
from keras_albert.conversion.safetensors_files import read_safetensors
from keras_albert.conversion.transformers_config import backbone_arguments, read_json
from keras_albert.conversion.weight_table import (
    IDENTITY,
    TRANSPOSED,
    Array,
    Layout,
    Row,
    dump_weights,
    load_weights,
)
from keras_albert.presets.checkpoint_formats import CheckpointFormat

# What all their ALBERT classes but the bare `AlbertModel` put before each name.
PREFIX = "albert."

# The heads of their classes: no part of a backbone, so it passes them over.
HEAD_PREFIXES = ("predictions.", "sop_classifier.", "classifier.", "qa_outputs.")

# A buffer that files written by transformers 4 may hold: 0, 1, 2, ...
_BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")

_VOCABULARY_FILE = "spiece.model"

# Our part, their part; a dense layer has a kernel and a bias, a norm both of its own.
_EMBEDDINGS = (
    ("embedding/token_embedding", "embeddings.word_embeddings"),
    ("embedding/position_embedding", "embeddings.position_embeddings"),
    ("embedding/segment_embedding", "embeddings.token_type_embeddings"),
)
_BLOCK_DENSES = (
    ("query", "attention.query"),
    ("key", "attention.key"),
    ("value", "attention.value"),
    ("attention_output", "attention.dense"),
    ("feedforward_intermediate", "ffn"),
    ("feedforward_output", "ffn_output"),
)
_BLOCK_NORMS = (
    ("attention_layer_norm", "attention.LayerNorm"),
    ("feedforward_layer_norm", "full_layer_layer_norm"),
)


def dense_rows(ours: str, theirs: str) -> list[Row]:
    """Give the rows of a dense layer."""
    return _pair(ours, theirs, ("kernel", "bias"), TRANSPOSED)


def layer_norm_rows(ours: str, theirs: str) -> list[Row]:
    """Give the rows of a layer normalization."""
    return _pair(ours, theirs, ("gamma", "beta"), IDENTITY)


def _pair(ours: str, theirs: str, names: tuple[str, str], layout: Layout) -> list[Row]:
    weight, bias = names
    return [
        Row(f"{ours}/{weight}", f"{theirs}.weight", layout),
        Row(f"{ours}/{bias}", f"{theirs}.bias"),
    ]


def backbone_rows(backbone: AlbertBackbone, prefix: str = PREFIX) -> list[Row]:
    """Give the table of a backbone, pooler included.

    Args:
        backbone: `AlbertBackbone`. Says how many groups and blocks there are.
        prefix: string. What stands before their names. Defaults to `"albert."`;
            empty for a bare `AlbertModel`.

    Returns:
        The rows.
    """
    embedding = prefix + "embeddings"
    rows = [
        # KerasHub gives position embeddings the plain name as well.
        Row(f"{ours}/embeddings", f"{prefix}{theirs}.weight")
        for ours, theirs in _EMBEDDINGS
    ]
    rows += layer_norm_rows("embedding/layer_norm", f"{embedding}.LayerNorm")
    rows += dense_rows(
        "embedding/projection", f"{prefix}encoder.embedding_hidden_mapping_in"
    )
    for group in range(backbone.num_groups):
        for inner in range(backbone.num_inner_repetitions):
            block = f"encoder/group_{group}_block_{inner}"
            layer = f"{prefix}encoder.albert_layer_groups.{group}.albert_layers.{inner}"
            for ours, theirs in _BLOCK_DENSES:
                rows += dense_rows(f"{block}/{ours}", f"{layer}.{theirs}")
            for ours, theirs in _BLOCK_NORMS:
                rows += layer_norm_rows(f"{block}/{ours}", f"{layer}.{theirs}")
    return rows + pooler_rows(prefix)


def pooler_rows(prefix: str = PREFIX) -> list[Row]:
    """Give the rows of the pooler, which some of their classes do without."""
    return dense_rows("pooler", f"{prefix}pooler")


def dump_backbone(backbone: AlbertBackbone, prefix: str = PREFIX) -> dict[str, Array]:
    """Give a backbone's weights as transformers' state dict.

    Args:
        backbone: `AlbertBackbone`. In floating point and with an embedding
            projection.
        prefix: string. What stands before the names. Defaults to `"albert."`; empty
            for a bare `AlbertModel`.

    Returns:
        NumPy arrays by transformers' names.

    Raises:
        ValueError: If the backbone has other weights than the format knows, or a
            weight is not finite.
    """
    return dump_weights(backbone, backbone_rows(backbone, prefix))


def recognizes(directory: Path) -> bool:
    """Say whether a directory holds an ALBERT of transformers."""
    config = read_json(directory / "config.json")
    return config is not None and config.get("model_type") == "albert"


def load_backbone(
    directory: Path, load_weights: bool = True, **kwargs: Any
) -> AlbertBackbone:
    """Build a backbone from a directory of transformers.

    Args:
        directory: Path. Where `config.json` is, and `model.safetensors` or its
            shards.
        load_weights: bool. `False` for random weights. Defaults to `True`.
        **kwargs: Arguments of `AlbertBackbone` that are to differ from the config.

    Returns:
        The backbone. Where the files have no pooler, as those of
        `AlbertForMaskedLM`, its pooler is new, and a warning says so.

    Raises:
        ValueError: If the config or the weights are damaged or contradict each
            other.
    """
    config = read_json(directory / "config.json")
    if config is None:
        msg = (
            f"{directory / 'config.json'} is missing or damaged. Copy or download the "
            "checkpoint again."
        )
        raise ValueError(msg)
    source = str(directory)
    arguments = backbone_arguments(config, source=str(directory / "config.json"))
    backbone = AlbertBackbone(**(arguments | kwargs))
    if load_weights:
        _fill(backbone, read_safetensors(directory, _is_backbone), source)
        backbone.pretrained = True
    return backbone


def read_vocabulary(directory: Path) -> bytes:
    """Read the SentencePiece model of a directory.

    Args:
        directory: Path. Where `spiece.model` is.

    Returns:
        The file's bytes.

    Raises:
        ValueError: If there is no such file.
    """
    path = directory / _VOCABULARY_FILE
    if not path.is_file():
        msg = (
            f"{directory} holds no `{_VOCABULARY_FILE}`, the vocabulary. Copy it there "
            "from the checkpoint's origin, or pass a `tokenizer` or `preprocessor` of "
            "your own."
        )
        raise ValueError(msg)
    return path.read_bytes()


def _is_backbone(name: str) -> bool:
    """Whether a tensor is for the backbone; misspelt ones count, to be refused."""
    return not (name.startswith(HEAD_PREFIXES) or name.removeprefix(PREFIX) in _BUFFERS)


def _fill(backbone: AlbertBackbone, tensors: dict[str, Array], source: str) -> None:
    prefix = PREFIX if any(name.startswith(PREFIX) for name in tensors) else ""
    rows = backbone_rows(backbone, prefix)
    pooler = pooler_rows(prefix)
    if any(row.name in tensors for row in pooler):
        load_weights(backbone, tensors, rows, source=source)
        return
    rows = [row for row in rows if row not in pooler]
    kept = [row.variable for row in pooler]
    load_weights(backbone, tensors, rows, kept=kept, source=source)
    warnings.warn(
        f"{source} has no pooler, as transformers' models without a classifier on "
        "[CLS] do not: `pooled_output` comes from new weights. Train before you use "
        "it.",
        stacklevel=2,
    )


TRANSFORMERS = CheckpointFormat(
    name="Hugging Face transformers",
    recognizes=recognizes,
    load_backbone=load_backbone,
    read_vocabulary=read_vocabulary,
)
