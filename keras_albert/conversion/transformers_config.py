"""transformers' `config.json` for ALBERT, in our backbone's words."""

import json
import math
from pathlib import Path
from typing import Any

# Our argument, their key, and the value that a config without the key stands for.
_COUNTS = (
    ("vocabulary_size", "vocab_size", 30_000),
    ("num_layers", "num_hidden_layers", 12),
    ("num_heads", "num_attention_heads", 64),
    ("embedding_dim", "embedding_size", 128),
    ("hidden_dim", "hidden_size", 4096),
    ("intermediate_dim", "intermediate_size", 16_384),
    ("num_groups", "num_hidden_groups", 1),
    ("num_inner_repetitions", "inner_group_num", 1),
    ("max_sequence_length", "max_position_embeddings", 512),
    ("num_segments", "type_vocab_size", 2),
)
_RATES = (
    ("dropout", "hidden_dropout_prob", 0.0),
    ("attention_dropout", "attention_probs_dropout_prob", 0.0),
    ("layer_norm_epsilon", "layer_norm_eps", 1e-12),
)
# Their "gelu" is the erf form, as Keras' is; the other names are all the tanh form.
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_approximate",
    "gelu_pytorch_tanh": "gelu_approximate",
    "gelu_python_tanh": "gelu_approximate",
    "gelu_accurate": "gelu_approximate",
    "gelu_fast": "gelu_approximate",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
}


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object.

    Args:
        path: Path. The file.

    Returns:
        The object; `None` if the file is missing, damaged or holds something else.
    """
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return config if isinstance(config, dict) else None


def backbone_arguments(config: dict[str, Any], source: str) -> dict[str, Any]:
    """Translate a config into the arguments of `AlbertBackbone`.

    Args:
        config: dict. The contents of transformers' `config.json`.
        source: string. What a message calls it.

    Returns:
        Keyword arguments. `use_embedding_projection` is `True` whatever the widths,
        since transformers always projects.

    Raises:
        ValueError: If a value is of the wrong kind, or names something that ALBERT
            does not have here.

    Example:
        >>> from keras_albert.conversion.transformers_config import backbone_arguments
        >>> config = {"hidden_act": "gelu_new", "hidden_size": 768}
        >>> arguments = backbone_arguments(config, "config.json")
        >>> arguments["activation"], arguments["hidden_dim"]
        ('gelu_approximate', 768)
    """
    arguments: dict[str, Any] = {}
    for argument, key, default in _COUNTS:
        value = config.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(_wrong(source, key, value, "a whole number above 0"))
        arguments[argument] = value
    for argument, key, default_rate in _RATES:
        value = config.get(key, default_rate)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not 0 <= value < 1:
            raise ValueError(_wrong(source, key, value, "a number from 0 to below 1"))
        arguments[argument] = float(value)
    activation = config.get("hidden_act", "gelu_new")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        expected = f"one of {', '.join(_ACTIVATIONS)}"
        raise ValueError(_wrong(source, "hidden_act", activation, expected))
    arguments["activation"] = _ACTIVATIONS[activation]
    positions = config.get("position_embedding_type", "absolute")
    if positions != "absolute":
        raise ValueError(
            _wrong(source, "position_embedding_type", positions, "'absolute'")
        )
    arguments["use_embedding_projection"] = True
    return arguments


def _wrong(source: str, key: str, value: object, expected: str) -> str:
    return (
        f"`{key}` in {source} must be {expected}. Received: {value!r}. Copy or "
        "download the checkpoint again, or correct the file."
    )
