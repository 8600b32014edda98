"""Checks that a preset is complete, before a model is built from it."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_albert.presets.base_preset import base_directory, has_base
from keras_albert.presets.checkpoint_formats import find_format, is_own_name
from keras_albert.presets.model_size import check_backbone_size, check_size
from keras_albert.presets.preset_files import (
    BASE_FILE,
    CONFIG_FILE,
    DIFFERENCE_FILE,
    INDEX_FILE,
    METADATA_FILE,
    PREPROCESSOR_FILE,
    TASK_FILE,
    TASK_WEIGHTS_FILE,
    TOKENIZER_FILE,
    VOCABULARY_FILES,
    WEIGHTS_FILE,
)
from keras_albert.presets.stored_weights import stored_arrays, weights_path
from keras_albert.utils.reading import read_json, read_optional_json

_CONFIG_FILES = (CONFIG_FILE, TASK_FILE, PREPROCESSOR_FILE, TOKENIZER_FILE)

# Configs that are stored twice: the key, the outer file and the inner file.
_SAID_TWICE = (
    ("backbone", TASK_FILE, CONFIG_FILE),
    ("preprocessor", TASK_FILE, PREPROCESSOR_FILE),
    ("tokenizer", PREPROCESSOR_FILE, TOKENIZER_FILE),
)


def check_preset(
    directory: Path, load_weights: bool = True, preprocessor: Any = "", **_: Any
) -> None:
    """Raise if files of a preset are missing, damaged or contradictory."""
    configs = {
        name: _read_config(directory / name)
        for name in _CONFIG_FILES
        if (directory / name).exists()
    }
    _check_backbone(directory, configs.get(CONFIG_FILE))
    if TASK_FILE not in configs and (directory / TASK_WEIGHTS_FILE).exists():
        _report_missing(directory / TASK_FILE, directory / TASK_WEIGHTS_FILE)
    read_optional_json(directory / METADATA_FILE)
    if has_base(directory):
        _check_difference(directory)
    for key, outer, inner in _SAID_TWICE:
        again = configs.get(outer, {}).get("config", {}).get(key)
        if again is None:
            continue
        if inner in configs:
            _check_equal(configs[inner], again, directory / inner, directory / outer)
        elif preprocessor == "":
            _report_missing(directory / inner, directory / outer)
    tokenizer = configs.get(TOKENIZER_FILE)
    if tokenizer is not None and preprocessor == "":
        rules = tokenizer["config"].get("text_rules")
        vocabulary = directory / VOCABULARY_FILES["split_cjk" in (rules or ())]
        if not vocabulary.exists():
            _report_missing(vocabulary, directory / TOKENIZER_FILE)
    if preprocessor == "" and PREPROCESSOR_FILE in configs:
        _check_masks(directory / PREPROCESSOR_FILE, configs[PREPROCESSOR_FILE])
    _check_sizes(directory, configs, load_weights)


def _read_config(path: Path) -> dict[str, Any]:
    """Read a config that Keras has serialized."""
    found: dict[str, Any] = read_json(path)
    wrong = [
        key
        for key, kind in (("registered_name", str), ("config", dict))
        if not isinstance(found.get(key), kind)
    ]
    if wrong:
        msg = (
            f"{path} is not the config of a preset: it has no {' and no '.join(wrong)}."
            " Save or copy the preset again."
        )
        raise ValueError(msg)
    return found


def _check_backbone(directory: Path, config: Mapping[str, Any] | None) -> None:
    if config is None:
        msg = (
            f"{directory} contains no `{CONFIG_FILE}`, so it is not a preset. Pass the "
            "directory that `save_to_preset` wrote, or one with the files of a "
            "released checkpoint."
        )
        raise ValueError(msg)
    if not is_own_name(config["registered_name"]):
        msg = (
            f"{directory / CONFIG_FILE} describes a {config['registered_name']!r}, "
            "which is not an ALBERT model. Pass a preset of keras_albert or a "
            "checkpoint of ALBERT, or import the module that defines the class."
        )
        raise ValueError(msg)


def _report_missing(path: Path, named_by: Path) -> None:
    msg = (
        f"{path} is missing, but {named_by} refers to it. Copy or download the whole "
        "preset again."
    )
    raise ValueError(msg)


def _check_equal(first: Any, second: Any, file: Path, other: Path) -> None:
    for where, one, two in _differences(first, second):
        msg = (
            f"{file} and {other} contradict each other: `{where}` is {one!r:.80} and "
            f"{two!r:.80}. Copy or download the whole preset again; if you have "
            "changed one of them, change both."
        )
        raise ValueError(msg)


def _check_difference(directory: Path) -> None:
    """Check that a preset with a base has a difference from it, and no weights."""
    base = directory / BASE_FILE
    if not (directory / DIFFERENCE_FILE).exists():
        _report_missing(directory / DIFFERENCE_FILE, base)
    for name in (WEIGHTS_FILE, INDEX_FILE):
        if (directory / name).exists():
            msg = (
                f"{directory} has both {name} and {BASE_FILE}, of two presets. Remove "
                "one of them."
            )
            raise ValueError(msg)


def _differences(
    first: Any, second: Any, where: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences of two configs, except the names of layers."""
    if not (isinstance(first, dict) and isinstance(second, dict)):
        # NaN differs from itself.
        if first != second and repr(first) != repr(second):
            yield where, first, second
        return
    for key in sorted({*first, *second} - {"name"}):
        inner = where if key == "config" else f"{where}.{key}".lstrip(".")
        yield from _differences(first.get(key), second.get(key), inner)


def _check_masks(path: Path, preprocessor: Mapping[str, Any]) -> None:
    """Check that a row does not have more predictions than tokens."""
    config = preprocessor["config"]
    masks = config.get("mask_selection_length")
    length = config.get("sequence_length") or config.get("max_sequence_length")
    if masks is None or length is None:
        return
    if not (isinstance(masks, int) and isinstance(length, int) and masks <= length):
        msg = (
            f"`mask_selection_length` in {path} is {masks!r:.80}; it must be an "
            f"integer, at most {length}, the number of tokens in a row. Copy or "
            "download the file again, or correct it."
        )
        raise ValueError(msg)


def _check_sizes(
    directory: Path, configs: Mapping[str, Any], load_weights: bool
) -> None:
    stored: list[tuple[int, ...]] = []
    if load_weights:
        stored = _stored_shapes(directory)
    sizes = configs[CONFIG_FILE]["config"]
    check_backbone_size(sizes, stored, str(directory / CONFIG_FILE))
    if TASK_FILE not in configs:
        return
    head: list[tuple[int, ...]] = []
    if load_weights and (directory / TASK_WEIGHTS_FILE).exists():
        head = _shapes(directory / TASK_WEIGHTS_FILE)
    task = configs[TASK_FILE]["config"]
    classes, labels = task.get("num_classes"), task.get("labels")
    if classes is None and isinstance(labels, list):
        classes = len(labels)
    exits = sizes["num_layers"] if task.get("exits") is True else task.get("exits")
    if isinstance(classes, int):
        # Each class has a vector in each head.
        vectors = classes * (exits if isinstance(exits, int) and exits > 0 else 1)
        check_size(vectors * sizes["hidden_dim"], head, str(directory / TASK_FILE))


def _stored_shapes(directory: Path) -> list[tuple[int, ...]]:
    if not has_base(directory):
        return _shapes(weights_path(directory))
    base = base_directory(directory)
    found = find_format(base)
    return found.stored_shapes(base) if found else _shapes(weights_path(base))


def _shapes(path: Path) -> list[tuple[int, ...]]:
    return [array.shape for array in stored_arrays(path)]
