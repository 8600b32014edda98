"""Whether the model that a config describes can be in the files beside it."""

from collections.abc import Collection, Mapping
from math import prod
from typing import Any

# Layers share their weights, so that no file contradicts their number.
_MOST_LAYERS = 1000

# Without files a model is built of random numbers; the largest ALBERT has 223 million.
_MOST_WEIGHTS = 2**28

# No single size is larger, and their products can still be printed.
_MOST = 2**40

# int4 packs two weights into an element.
_WEIGHTS_AN_ELEMENT = 2

# What is as small as this may be built, and what does not fit it be named one by one.
_HARMLESS_WEIGHTS = 2**22

# The arrays of a block: six dense layers and two normalizations.
_ARRAYS_A_BLOCK = 16
_HARMLESS_ARRAYS = 2**9

_REQUIRED = (
    *("vocabulary_size", "num_layers", "num_heads", "embedding_dim", "hidden_dim"),
    "intermediate_dim",
)
_DEFAULTS = {
    "num_groups": 1,
    "num_inner_repetitions": 1,
    "max_sequence_length": 512,
    "num_segments": 2,
}


def check_backbone_size(
    arguments: Mapping[str, Any],
    stored: Collection[tuple[int, ...]],
    source: str,
) -> None:
    """Refuse a config of a far larger model before one is built, memory and all.

    Args:
        arguments: dict. What would build an `AlbertBackbone`.
        stored: Shapes of the arrays in the files, as far as these really hold them;
            empty if there are no files.
        source: string. What a message calls the config.

    Raises:
        ValueError: If an argument is missing or of the wrong kind, or the files
            cannot hold the model.
    """
    sizes = check_sizes(arguments, source)
    hidden, inner = sizes["hidden_dim"], sizes["intermediate_dim"]
    blocks = sizes["num_groups"] * sizes["num_inner_repetitions"]
    rows = sum(
        sizes[name]
        for name in ("vocabulary_size", "max_sequence_length", "num_segments")
    )
    weights = rows * sizes["embedding_dim"]
    weights += blocks * (4 * hidden * hidden + 2 * hidden * inner)
    check_size(weights, stored, source)
    if stored and blocks * _ARRAYS_A_BLOCK > len(stored) + _HARMLESS_ARRAYS:
        msg = (
            f"{source} describes a model of {blocks:,} blocks, with "
            f"{_ARRAYS_A_BLOCK} arrays each, and the files beside it hold "
            f"{len(stored):,} arrays in all. Copy or download both again."
        )
        raise ValueError(msg)


def check_size(weights: int, stored: Collection[tuple[int, ...]], source: str) -> None:
    """Refuse to build more weights than files can hold.

    Args:
        weights: int. How many a config describes, for instance of a head.
        stored: As in `check_backbone_size`.
        source: string. What a message calls the config.

    Raises:
        ValueError: If the files cannot hold them.
    """
    elements = sum(map(prod, stored))
    most = _MOST_WEIGHTS
    if stored:
        most = elements * _WEIGHTS_AN_ELEMENT + _HARMLESS_WEIGHTS
    if weights > most:
        held = f"the files beside it hold {elements:,}" if stored else "it has no files"
        msg = (
            f"{source} describes a model of at least {weights:,} weights, and {held}: "
            "some are missing, damaged or truncated, or the config is of another "
            "checkpoint. Copy or download both again."
        )
        raise ValueError(msg)


def check_sizes(arguments: Mapping[str, Any], source: str) -> dict[str, int]:
    """Refuse sizes of which no backbone can be made.

    Args:
        arguments: dict. What would build an `AlbertBackbone`.
        source: string. What a message calls the config.

    Returns:
        The sizes, with their defaults.

    Raises:
        ValueError: If one is missing, no whole number above 0, or out of proportion.
    """
    sizes: dict[str, int] = {}
    for name in (*_REQUIRED, *_DEFAULTS):
        value = arguments.get(name, _DEFAULTS.get(name))
        is_count = isinstance(value, int) and not isinstance(value, bool)
        if not is_count or not 1 <= value <= _MOST:
            found = repr(value)[:80] if name in arguments else "none"
            msg = (
                f"`{name}` in {source} must be a whole number above 0, and not above "
                f"2**40. Received: {found}. Copy or download the file again, or "
                "correct it."
            )
            raise ValueError(msg)
        sizes[name] = value
    depth = sizes["num_layers"] * sizes["num_inner_repetitions"]
    if depth > _MOST_LAYERS:
        msg = (
            f"`num_layers` times `num_inner_repetitions` in {source} is {depth}, and "
            f"may be {_MOST_LAYERS} at most. Copy or download the file again, or "
            "correct it."
        )
        raise ValueError(msg)
    if sizes["num_groups"] > sizes["num_layers"]:
        msg = (
            f"`num_groups` in {source} is {sizes['num_groups']}, more than "
            f"`num_layers`, {sizes['num_layers']}. Copy or download the file again, or "
            "correct it."
        )
        raise ValueError(msg)
    if sizes["hidden_dim"] % sizes["num_heads"]:
        msg = (
            f"`hidden_dim` in {source} is {sizes['hidden_dim']}, no multiple of "
            f"`num_heads`, {sizes['num_heads']}. Copy or download the file again, or "
            "correct it."
        )
        raise ValueError(msg)
    return sizes
