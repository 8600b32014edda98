"""Translating the JSON files of KerasHub's presets, in both directions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from keras_albert.conversion.tables.config import read_rate, wrong_value
from keras_albert.presets.model_size import check_sizes
from keras_albert.utils.reading import read_json, read_optional_json, reading

CONFIG_FILE = "config.json"
TASK_FILE = "task.json"
_PREPROCESSOR_FILE = "preprocessor.json"

# Presets written before the library was renamed contain its old name; the classifier
# and its preprocessor have been renamed as well.
_LIBRARIES = ("keras_hub>", "keras_nlp>")
_CLASS_NAMES = {
    "BertClassifier": "BertTextClassifier",
    "BertPreprocessor": "BertTextClassifierPreprocessor",
    "AlbertClassifier": "AlbertTextClassifier",
    "AlbertPreprocessor": "AlbertTextClassifierPreprocessor",
}

# The arguments of the backbone's constructor, which have the same names here.
ARGUMENTS = (
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
CLASSIFIER_ARGUMENTS = ("num_classes", "activation", "dropout")

# KerasHub's preprocessors, and those of this package. All settings have the same names.
_PREPROCESSORS = {
    "AlbertTextClassifierPreprocessor": "AlbertClassifierPreprocessor",
    "BertTextClassifierPreprocessor": "AlbertClassifierPreprocessor",
    "AlbertMaskedLMPreprocessor": "AlbertMaskedLMPreprocessor",
    "BertMaskedLMPreprocessor": "AlbertMaskedLMPreprocessor",
}
_TRUNCATIONS = ("round_robin", "waterfall")
_RATES = ("mask_selection_rate", "mask_token_rate", "random_token_rate")

# KerasHub's default length.
_DEFAULT_LENGTH = 512


def class_name(path: Path) -> str | None:
    """Return the current name of the KerasHub class that a file names."""
    name = str(read_optional_json(path).get("registered_name"))
    for library in _LIBRARIES:
        if name.startswith(library):
            name = name.removeprefix(library)
            return _CLASS_NAMES.get(name, name)
    return None


def read_config(path: Path) -> dict[str, Any]:
    """Read the arguments in a file."""
    config = read_json(path).get("config")
    if not isinstance(config, dict):
        raise ValueError(f"{path} contains no `config`. Copy or download it again.")
    return config


def backbone_config(directory: Path) -> dict[str, Any]:
    """Read the arguments of a preset's backbone."""
    path = directory / CONFIG_FILE
    config = read_config(path)
    if class_name(path) == "BertBackbone":
        # Its embeddings are as wide as the encoder, and its layers share nothing.
        config = config | {
            "embedding_dim": config.get("hidden_dim"),
            "num_groups": config.get("num_layers"),
        }
    check_sizes(config, str(path))
    read_rate(config, "dropout", 0.0, str(path))
    layers, groups = config["num_layers"], config.get("num_groups", 1)
    if layers % groups:
        expected = f"a divisor of `num_layers`, {layers}"
        raise wrong_value(path, "num_groups", groups, expected)
    arguments = {name: config[name] for name in ARGUMENTS if name in config}
    stored = {name: read_config(path).get(name) for name in arguments}
    _check_same(directory, "backbone", CONFIG_FILE, stored)
    return arguments


def classifier_arguments(directory: Path) -> dict[str, Any]:
    """Read the arguments of a preset's classifier."""
    path = directory / TASK_FILE
    config = read_config(path)
    _check_count(config.get("num_classes"), "num_classes", path)
    read_rate(config, "dropout", 0.0, str(path))
    activation = config.get("activation")
    with reading(path):
        if not isinstance(activation, str | None):
            raise TypeError(f"its `activation` is {type(activation).__name__}")
        keras.activations.get(activation)
    return {name: config[name] for name in CLASSIFIER_ARGUMENTS if name in config}


def preprocessor_arguments(directory: Path, preprocessor: Any) -> dict[str, Any]:
    """Read the settings of a preset's preprocessor."""
    path = directory / _PREPROCESSOR_FILE
    ours = _PREPROCESSORS.get(class_name(path) or "", "")
    if ours not in {cls.__name__ for cls in preprocessor.__mro__}:
        return {}
    config = read_config(path)
    names = ["sequence_length", "truncate"]
    if "MaskedLM" in ours:
        names += ["mask_selection_length", *_RATES]
    settings = {name: config[name] for name in names if name in config}
    for name, value in settings.items():
        if name == "truncate":
            if value not in _TRUNCATIONS:
                raise wrong_value(path, name, value, f"one of {_TRUNCATIONS}")
        elif name in _RATES:
            if type(value) not in (int, float) or not 0 <= value <= 1:
                raise wrong_value(path, name, value, "a number from 0 to 1")
        elif value is not None or name == "sequence_length":
            _check_count(value, name, path)
    if "sequence_length" in settings:
        length, shortest = settings["sequence_length"], preprocessor.shortest_length
        if length < shortest:
            expected = f"at least {shortest}, so that each text keeps a token"
            raise wrong_value(path, "sequence_length", length, expected)
    _check_same(directory, "preprocessor", _PREPROCESSOR_FILE, settings)
    if settings.get("sequence_length") == _DEFAULT_LENGTH:
        most = backbone_config(directory).get("max_sequence_length", _DEFAULT_LENGTH)
        if most <= _DEFAULT_LENGTH:
            settings["sequence_length"] = None
    return settings


def preprocessor_settings(preprocessor: Any, max_length: int) -> dict[str, Any]:
    """Translate the settings of a preprocessor to KerasHub's."""
    if preprocessor is None:
        return {"sequence_length": max_length}
    length = min(preprocessor.max_length, max_length)
    settings = {"sequence_length": length, "truncate": preprocessor.truncate}
    if hasattr(preprocessor, "mask_selection_rate"):
        settings |= {name: getattr(preprocessor, name) for name in _RATES}
        settings["mask_selection_length"] = preprocessor.mask_slots(length)
    return settings


def _check_same(
    directory: Path, part: str, file: str, settings: Mapping[str, Any]
) -> None:
    """Check that `task.json` agrees with the file of a part."""
    path = directory / TASK_FILE
    with reading(path):
        in_task = (read_optional_json(path).get("config") or {}).get(part) or {}
        others = dict(in_task.get("config") or {})
    for name, value in settings.items():
        if name in others and others[name] != value:
            msg = (
                f"{path} and {file} beside it contradict each other: `{name}` of the "
                f"{part} is {others[name]!r} and {value!r}. Copy or download the "
                "preset again."
            )
            raise ValueError(msg)


def _check_count(value: Any, name: str, path: Path) -> None:
    if type(value) is not int or not 1 <= value < 2**31:
        raise wrong_value(path, name, value, "a whole number above 0")
