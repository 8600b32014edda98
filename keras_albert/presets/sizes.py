"""Sizes that a config states, compared with what its files contain."""

from collections.abc import Collection, Mapping
from math import prod
from typing import Any

from keras_albert.utils.arguments import (
    MAX_LAYERS,
    check_at_most,
    check_depth,
    check_positive,
)
from keras_albert.utils.reading import reading

# Without files a model has random weights; the largest ALBERT has 223 million.
_MAX_WEIGHTS = 2**28

# The limit of any single size; products of sizes can still be printed.
_MAX_SIZE = 2**40

# int4 packs two weights into one element.
_WEIGHTS_AN_ELEMENT = 2

# Up to this excess a model is built, so that mismatches can be reported one by one.
_HARMLESS_WEIGHTS = 2**22

# The arrays of a block: six dense layers and two normalizations.
_ARRAYS_A_BLOCK = 16
_HARMLESS_ARRAYS = 2**9

_REMEDY = "Copy or download the file again, or correct it."

# The sizes of a backbone, and their defaults, if they have one.
_SIZES = {
    "vocabulary_size": None,
    "num_layers": None,
    "num_heads": None,
    "embedding_dim": None,
    "hidden_dim": None,
    "intermediate_dim": None,
    "num_groups": 1,
    "num_inner_repetitions": 1,
    "max_sequence_length": 512,
    "num_segments": 2,
}


def check_backbone_size(
    arguments: Mapping[str, Any], stored: Collection[tuple[int, ...]], source: str
) -> None:
    """Raise if a config describes a far larger model, before memory is allocated."""
    sizes = check_sizes(arguments, source)
    hidden, inner = sizes["hidden_dim"], sizes["intermediate_dim"]
    blocks = sizes["num_groups"] * sizes["num_inner_repetitions"]
    tables = ("vocabulary_size", "max_sequence_length", "num_segments")
    rows = sum(sizes[name] for name in tables)
    weights = rows * sizes["embedding_dim"]
    weights += blocks * (4 * hidden * hidden + 2 * hidden * inner)
    if rank := sizes.get("adapter_rank", 0):
        runs = sizes["num_layers"] * sizes["num_inner_repetitions"]
        weights += runs * rank * (10 * hidden + 2 * inner)
    check_size(weights, stored, source)
    if stored and blocks * _ARRAYS_A_BLOCK > len(stored) + _HARMLESS_ARRAYS:
        raise ValueError(
            f"{source} describes a model of {blocks:,} blocks, with {_ARRAYS_A_BLOCK} "
            f"arrays each, and its files contain {len(stored):,} arrays in "
            "total. Copy or download both again."
        )


def check_size(weights: int, stored: Collection[tuple[int, ...]], source: str) -> None:
    """Raise if a config describes more weights than the files can contain."""
    elements = sum(map(prod, stored))
    most = _MAX_WEIGHTS
    if stored:
        most = elements * _WEIGHTS_AN_ELEMENT + _HARMLESS_WEIGHTS
    if weights > most:
        found = f"its files contain {elements:,}" if stored else "it has no files"
        raise ValueError(
            f"{source} describes a model of at least {weights:,} weights, and {found}: "
            "some are missing, damaged or truncated, or the config belongs to another "
            "checkpoint. Copy or download both again."
        )


def check_sizes(arguments: Mapping[str, Any], source: str) -> dict[str, int]:
    """Check that the sizes of a backbone are valid."""
    sizes = {name: arguments.get(name, _SIZES[name]) for name in _SIZES}
    if arguments.get("adapter_rank") is not None:
        sizes["adapter_rank"] = arguments["adapter_rank"]
    with reading(source, _REMEDY):
        check_positive(**sizes)
        check_at_most(_MAX_SIZE, **sizes)
        check_depth(sizes["num_layers"], sizes["num_groups"])
        depth = sizes["num_layers"] * sizes["num_inner_repetitions"]
        check_at_most(MAX_LAYERS, **{"num_layers * num_inner_repetitions": depth})
        if sizes["hidden_dim"] % sizes["num_heads"]:
            raise ValueError(
                f"`hidden_dim` is {sizes['hidden_dim']}, not a multiple of "
                f"`num_heads`, {sizes['num_heads']}"
            )
    return sizes
