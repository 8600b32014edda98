"""Checks that the files beside a config can contain its model."""

from collections.abc import Collection, Mapping
from math import prod
from typing import Any

from keras_albert.utils.arguments import MAX_LAYERS

# Without files a model has random weights; the largest ALBERT has 223 million.
_MOST_WEIGHTS = 2**28

# The limit of any single size; products of sizes can still be printed.
_MOST = 2**40

# int4 packs two weights into one element.
_WEIGHTS_AN_ELEMENT = 2

# Up to this excess a model is built, so that mismatches can be reported one by one.
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
    """Raise if a config describes a far larger model, before memory is allocated."""
    sizes = check_sizes(arguments, source)
    hidden, inner = sizes["hidden_dim"], sizes["intermediate_dim"]
    blocks = sizes["num_groups"] * sizes["num_inner_repetitions"]
    rows = sum(
        sizes[name]
        for name in ("vocabulary_size", "max_sequence_length", "num_segments")
    )
    weights = rows * sizes["embedding_dim"]
    weights += blocks * (4 * hidden * hidden + 2 * hidden * inner)
    if rank := sizes.get("adapter_rank", 0):
        runs = sizes["num_layers"] * sizes["num_inner_repetitions"]
        weights += runs * rank * (10 * hidden + 2 * inner)
    check_size(weights, stored, source)
    if stored and blocks * _ARRAYS_A_BLOCK > len(stored) + _HARMLESS_ARRAYS:
        raise ValueError(
            f"{source} describes a model of {blocks:,} blocks, with {_ARRAYS_A_BLOCK} "
            f"arrays each, and the files beside it contain {len(stored):,} arrays in "
            "total. Copy or download both again."
        )


def check_size(weights: int, stored: Collection[tuple[int, ...]], source: str) -> None:
    """Raise if a config describes more weights than the files can contain."""
    elements = sum(map(prod, stored))
    most = _MOST_WEIGHTS
    if stored:
        most = elements * _WEIGHTS_AN_ELEMENT + _HARMLESS_WEIGHTS
    if weights > most:
        held = (
            f"the files beside it contain {elements:,}" if stored else "it has no files"
        )
        raise ValueError(
            f"{source} describes a model of at least {weights:,} weights, and {held}: "
            "some are missing, damaged or truncated, or the config belongs to another "
            "checkpoint. Copy or download both again."
        )


def check_sizes(arguments: Mapping[str, Any], source: str) -> dict[str, int]:
    """Check that the sizes of a backbone are valid."""
    sizes: dict[str, int] = {}
    has_rank = arguments.get("adapter_rank") is not None
    for name in (*_REQUIRED, *_DEFAULTS, *(["adapter_rank"] if has_rank else ())):
        value = arguments.get(name, _DEFAULTS.get(name))
        is_count = isinstance(value, int) and not isinstance(value, bool)
        if not is_count or not 1 <= value <= _MOST:
            found = repr(value)[:80] if name in arguments else "none"
            raise _wrong(
                f"`{name}` in {source} must be an integer from 1 to 2**40. Received: "
                f"{found}"
            )
        sizes[name] = value
    depth = sizes["num_layers"] * sizes["num_inner_repetitions"]
    if depth > MAX_LAYERS:
        raise _wrong(
            f"`num_layers` times `num_inner_repetitions` in {source} is {depth}, and "
            f"may be {MAX_LAYERS} at most"
        )
    if sizes["num_groups"] > sizes["num_layers"]:
        raise _wrong(
            f"`num_groups` in {source} is {sizes['num_groups']}, more than "
            f"`num_layers`, {sizes['num_layers']}"
        )
    if sizes["hidden_dim"] % sizes["num_heads"]:
        raise _wrong(
            f"`hidden_dim` in {source} is {sizes['hidden_dim']}, not a multiple of "
            f"`num_heads`, {sizes['num_heads']}"
        )
    return sizes


def _wrong(fact: str) -> ValueError:
    return ValueError(f"{fact}. Copy or download the file again, or correct it.")
