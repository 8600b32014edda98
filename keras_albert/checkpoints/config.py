"""Translating transformers' `config.json` for ALBERT, in both directions.

google-research/albert's `albert_config.json` has the same keys; only "gelu" differs.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import keras

from keras_albert.backbone import AlbertBackbone
from keras_albert.layers.base_layer import get_activation
from keras_albert.presets.checkpoint import check_sizes
from keras_albert.utils.arguments import check_rates

# The argument, the key in the config, and the default if the key is missing.
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
# "gelu" and "gelu_python" are the erf form, as in Keras; the other GELUs the tanh form.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    **dict.fromkeys(
        ("gelu_new", "gelu_pytorch_tanh", "gelu_python_tanh"), "gelu_approximate"
    ),
    **dict.fromkeys(("gelu_accurate", "gelu_fast"), "gelu_approximate"),
    **{"relu": "relu", "silu": "silu", "swish": "silu", "tanh": "tanh"},
}

# The classes whose labels, activation and dropout are in transformers' config.
LABELLED = ("AlbertClassifier", "AlbertTokenClassifier")
# The `problem_type` of a text with any number of labels.
SETS = "multi_label_classification"


def wrong_value(
    source: str | Path, key: str, value: object, expected: str
) -> ValueError:
    """Return the error about a value in a config."""
    return ValueError(
        f"`{key}` in {source} must be {expected}. Received: {repr(value)[:200]}. Copy "
        "or download the checkpoint again, or correct the file."
    )


def backbone_arguments(
    config: dict[str, Any],
    source: str,
    activations: Mapping[str, str] = ACTIVATIONS,
    keys: Mapping[str, str] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Translate a config to the arguments of `AlbertBackbone`.

    `keys` and `defaults` of another architecture are by ALBERT's keys; `source` is the
    name of the config in messages.
    """
    arguments: dict[str, Any] = {}
    own, missing = keys or {}, defaults or {}
    for argument, name, default in (*_COUNTS, *_RATES):
        value = config.get(own.get(name, name), missing.get(name, default))
        arguments[argument] = value
    check_sizes(arguments, source)
    check_rates(**{name: arguments[name] for name, *_ in _RATES})
    key = own.get("hidden_act", "hidden_act")
    activation = config.get(key, missing.get("hidden_act", "gelu_new"))
    if not isinstance(activation, str) or activation not in activations:
        expected = f"one of {', '.join(activations)}"
        raise wrong_value(source, key, activation, expected)
    arguments["activation"] = activations[activation]
    positions = config.get("position_embedding_type", "absolute")
    if positions != "absolute":
        raise wrong_value(source, "position_embedding_type", positions, "'absolute'")
    arguments["use_embedding_projection"] = True
    return arguments


def backbone_config(
    backbone: AlbertBackbone,
    activations: Mapping[str, str] = ACTIVATIONS,
    keys: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Translate a backbone's arguments to a config."""
    own = get_activation(backbone.activation)
    # Compared as functions, since an activation may be given as one.
    names = {
        get_activation(ours): theirs
        # The first of several names for one function is used.
        for theirs, ours in reversed(list(activations.items()))
    }
    if own not in names:
        raise ValueError(
            f"This format has no name for activation={backbone.activation!r}, only "
            f"for {', '.join(activations.values())}. Save it as a keras_albert preset."
        )
    rates = {theirs: getattr(backbone, ours) for ours, theirs, _ in _RATES}
    values = rates | {"hidden_act": names[own], "initializer_range": 0.02}
    values = {(keys or {}).get(key, key): value for key, value in values.items()}
    return size_config(backbone, keys) | values


def size_config(
    backbone: AlbertBackbone, keys: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Translate the sizes of a backbone to a config."""
    return {
        (keys or {}).get(theirs, theirs): getattr(backbone, ours)
        for ours, theirs, _ in _COUNTS
    }


# How libraries divide layers among groups: in floating point, which for some numbers is
# one too low. Here the group is `layer * num_groups // num_layers`.
_GROUP_OF: dict[str, Callable[[int, int, int], int]] = {
    "transformers": lambda layer, layers, groups: int(layer / (layers / groups)),
    "google-research/albert": lambda layer, layers, groups: int(
        layer / layers * groups
    ),
}


def check_groups(num_layers: int, num_groups: int, library: str) -> None:
    """Check that another library assigns layers to the same groups."""
    for layer in range(num_layers):
        group = layer * num_groups // num_layers
        theirs = _GROUP_OF[library](layer, num_layers, num_groups)
        if theirs != group:
            raise ValueError(
                f"With num_layers={num_layers} and num_groups={num_groups}, {library} "
                f"rounds the group of layer {layer} to {theirs}, here {group}. "
                "Choose `num_groups` that divides `num_layers`."
            )


def read_labels(
    config: dict[str, Any], source: str
) -> tuple[int, tuple[str, ...] | None]:
    """Return the number of classes and their names; `None` for `LABEL_0`, ..."""
    named = config.get("id2label")
    if named is None:
        return config.get("num_labels") or 2, None
    try:
        labels = {int(number): name for number, name in named.items()}
    except (AttributeError, TypeError, ValueError):
        labels = {}
    are_names = all(isinstance(name, str | int) for name in labels.values())
    if not labels or not are_names or sorted(labels) != list(range(len(labels))):
        expected = "a name for each of the numbers 0, 1, ..."
        raise wrong_value(source, "id2label", named, expected)
    names = tuple(str(labels[number]) for number in range(len(labels)))
    made_up = all(re.fullmatch(r"LABEL_\d+", name) for name in names)
    if made_up or len(set(names)) < len(names):
        return len(names), None
    return len(names), names


def label_config(model: Any) -> dict[str, Any]:
    """Translate the classes of a task, and how they are scored, to a config."""
    tasks = {cls.__name__ for cls in type(model).__mro__}
    if not tasks & set(LABELLED):
        return {}
    names = model.labels or [f"LABEL_{number}" for number in range(model.num_classes)]
    config = {
        "id2label": {str(number): name for number, name in enumerate(names)},
        "label2id": {name: number for number, name in enumerate(names)},
    }
    if "AlbertClassifier" not in tasks:
        return config
    plain = keras.activations.linear, keras.activations.softmax
    if model.activation not in plain and not model.is_multi_label:
        raise ValueError(
            f"transformers has no classifier with activation={model.activation!r}. "
            "Save it as a keras_albert preset."
        )
    kind = SETS if model.is_multi_label else "single_label_classification"
    return config | {"problem_type": "regression" if model.is_regression else kind}
