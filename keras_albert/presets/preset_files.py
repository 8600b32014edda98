"""The files of presets and of other checkpoints: names, and which replace which."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import keras

from keras_albert.presets.checkpoint import (
    OWN_FORMAT,
    Files,
    get_format,
    open_checkpoint,
)
from keras_albert.presets.weight_files import Shape, inspect_weights
from keras_albert.utils.atomic_files import atomic_directory
from keras_albert.utils.keras_internals import IN_USE, has_no_value
from keras_albert.utils.reading import read_json

CONFIG_FILE = "config.json"
METADATA_FILE = "metadata.json"
TASK_FILE = "task.json"
TASK_WEIGHTS_FILE = "task.weights.h5"
PREPROCESSOR_FILE = "preprocessor.json"
TOKENIZER_FILE = "tokenizer.json"
WEIGHTS_FILE = "model.weights.h5"
INDEX_FILE = "model.weights.json"
# In place of weights: the difference from another preset.
DIFFERENCE_FILE = "difference.safetensors"
VOCABULARY_FILES = (
    "assets/tokenizer/vocabulary.spm",
    "assets/tokenizer/vocabulary.txt",
)

# The files of each part of a preset, its config first.
_PARTS = {
    "task": (TASK_FILE, TASK_WEIGHTS_FILE),
    "backbone": (
        *(CONFIG_FILE, METADATA_FILE),
        *(WEIGHTS_FILE, INDEX_FILE, "model_*.weights.h5"),
        DIFFERENCE_FILE,
    ),
    "preprocessor": (PREPROCESSOR_FILE,),
    "tokenizer": (TOKENIZER_FILE, "assets/tokenizer"),
}
_INSIDE = {
    "task": {"backbone", "preprocessor", "tokenizer"},
    "preprocessor": {"tokenizer"},
}


@contextmanager
def preset_directory(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a directory that becomes a preset when the block succeeds."""
    # A save replaces all files of an earlier save of the same part: a task replaces the
    # whole preset, whatever the names of its weights files. Separate parts, such as a
    # tokenizer and a backbone, can share a directory, but a part that belongs to
    # another cannot be replaced alone: a backbone saved over a task would get the
    # task's old head. Files that no save writes, such as a `README.md`, stay.
    with atomic_directory(target, _plan) as temporary:
        yield temporary


def _plan(written: Path, target: Path) -> Callable[[str], bool]:
    new = {part for part in _PARTS if _files_of(part, written)}
    old = {part for part in _PARTS if _files_of(part, target)}
    replaced = new.union(*(_INSIDE.get(part, set()) for part in new))
    foreign = [part for part in old & replaced if not _is_ours(part, target)]
    if foreign or open_checkpoint(target).format.key != OWN_FORMAT:
        raise ValueError(
            f"{target} has files that are no intact preset of keras_albert. Save into "
            "another directory, or move them."
        )
    for part in old - new:
        if new & _INSIDE.get(part, set()):
            raise ValueError(
                f"{target} has a {part}, and {', '.join(sorted(new))} would replace "
                f"only a part of it. Save into another directory, or save the {part}."
            )
    patterns = [pattern for part in replaced for pattern in _PARTS[part]]
    return lambda name: any(fnmatch(name, pattern) for pattern in patterns)


def _is_ours(part: str, target: Path) -> bool:
    """Return whether this package wrote the files with a part's names."""
    try:
        name = read_json(target / _PARTS[part][0]).get("registered_name")
    except (OSError, ValueError):
        return False
    return isinstance(name, str) and not name.startswith(("keras_hub>", "keras_nlp>"))


def _files_of(part: str, directory: Path) -> list[Path]:
    return sorted(path for name in _PARTS[part] for path in directory.glob(name))


# The files that any of the formats reads.
_CHECKPOINT_FILES = (
    *("config.json", "task.json", "preprocessor.json", "metadata.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "albert_config.json", "bert_config.json", "checkpoint"),
    *("modules.json", "*sentence_*.json", "[0-9]_*/config.json", "vocab.txt"),
    *("*.model", "*.spm", "assets/tokenizer/*"),
    *("*.weights.h5", "*.weights.json", "model*.safetensors*", "pytorch_model*"),
    *("difference.safetensors", "tf_model.h5"),
    *("*.ckpt*", "*.data-?????-of-?????", "saved_model.pb", "fingerprint.pb"),
    *("variables/variables.*", "assets/*.model", "assets/vocab*.txt"),
)


def is_checkpoint_file(name: str) -> bool:
    """Return whether one of the formats may read a file, by its name in a directory."""
    return any(
        name.count("/") == pattern.count("/") and fnmatch(name, pattern)
        for pattern in _CHECKPOINT_FILES
    )


def refuse_mixing(written: Path, target: Path) -> Callable[[str], bool]:
    """Raise if other files in the target would be read along with the new ones."""
    there = {
        path.relative_to(target).as_posix()
        for pattern in _CHECKPOINT_FILES
        for path in target.glob(pattern)
    }
    others = sorted(name for name in there if not (written / name).is_file())
    if others:
        raise FileExistsError(
            f"{target} has files of another checkpoint: {', '.join(others[:9])}. "
            "Choose another directory, or move these files."
        )
    return lambda name: False


def write_checkpoint(
    model: Any,
    directory: str | os.PathLike[str],
    key: str,
    tokenizer: Any = None,
    is_exact: bool = False,
) -> Path:
    """Write a model in a format, atomically and over an earlier export.

    The variant of the format that fits the model is chosen, unless the key is exact.
    """
    if not isinstance(model, keras.Model):
        raise TypeError(f"A model is exported. Received: {type(model).__name__}")
    chosen = get_format(key)
    if not is_exact:
        chosen = chosen.for_model(model)
    if tokenizer is None:
        tokenizer = getattr(getattr(model, "preprocessor", None), "tokenizer", None)
    check_readable(model.variables)
    with atomic_directory(directory, refuse_mixing) as temporary:
        chosen.write(model, temporary, getattr(tokenizer, "proto", None))
    return Path(directory)


def check_readable(variables: Iterable[Any]) -> None:
    """Raise if values are in use, or if other processes have parts of them (JAX)."""
    for variable in variables:
        if has_no_value(variable):
            raise RuntimeError(IN_USE)
        if getattr(variable.value, "is_fully_addressable", True):
            continue
        try:
            variable.numpy()
        except RuntimeError as error:
            raise ValueError(
                f"Other processes have parts of {variable.path}, which this one cannot "
                "save. Choose a `DeviceMesh` whose batch axis has at least one entry "
                "for each process, such as (2, 2) for 2 processes of 2 devices."
            ) from error


def weights_path(directory: Path) -> Path:
    """Return the path of a preset's weights."""
    for name in (WEIGHTS_FILE, INDEX_FILE):
        if (directory / name).is_file():
            return directory / name
    raise ValueError(
        f"{directory} contains neither `{WEIGHTS_FILE}` nor `{INDEX_FILE}`. Copy the "
        "preset again, or pass `load_weights=False` for random weights."
    )


def stored_shapes(files: Files) -> list[Shape]:
    """Return the shapes of the weights in a preset, of its head as well."""
    names = filter(files.has, (WEIGHTS_FILE, INDEX_FILE, TASK_WEIGHTS_FILE))
    found = [files.read(inspect_weights, name).values() for name in names]
    return [shape for each in found for shape in each]
