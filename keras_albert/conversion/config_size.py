"""Whether the model that a config describes can be in its files at all."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Nobody stores a weight in less.
_BYTES_A_WEIGHT = 2
# A model as small as this may be built, and what does not fit it be named.
_HARMLESS_BYTES = 2**24


def check_config_size(
    arguments: dict[str, Any], files: Iterable[Path], source: str
) -> None:
    """Find a config of a far larger model before one is built, memory and all.

    Args:
        arguments: dict. What would build the backbone.
        files: Paths of the weights; if there are none, nothing is checked.
        source: string. What a message calls the config.

    Raises:
        ValueError: If the files are too small for the model.
    """
    stored = sum(path.stat().st_size for path in files if path.is_file())
    hidden, inner = arguments["hidden_dim"], arguments["intermediate_dim"]
    blocks = arguments["num_groups"] * arguments["num_inner_repetitions"]
    rows = sum(
        arguments[name]
        for name in ("vocabulary_size", "max_sequence_length", "num_segments")
    )
    weights = rows * arguments["embedding_dim"]
    weights += blocks * (4 * hidden * hidden + 2 * hidden * inner)
    if stored and weights * _BYTES_A_WEIGHT > stored + _HARMLESS_BYTES:
        msg = (
            f"{source} describes a model of at least {weights:,} weights, and the "
            f"files beside it have {stored:,} bytes: some are missing, damaged or "
            "truncated, or the config is of another checkpoint. Copy or download both "
            "again."
        )
        raise ValueError(msg)
