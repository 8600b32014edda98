"""The files of a preset, and the directory to save it to."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from keras_albert.presets.checkpoint import OWN_FORMAT, open_checkpoint
from keras_albert.utils.atomic_files import atomic_directory
from keras_albert.utils.reading import read_json

CONFIG_FILE = "config.json"
METADATA_FILE = "metadata.json"
TASK_FILE = "task.json"
TASK_WEIGHTS_FILE = "task.weights.h5"
PREPROCESSOR_FILE = "preprocessor.json"
TOKENIZER_FILE = "tokenizer.json"
WEIGHTS_FILE = "model.weights.h5"
INDEX_FILE = "model.weights.json"
# In place of weights: what differs from those of another preset.
BASE_FILE = "base.json"
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
        *(BASE_FILE, DIFFERENCE_FILE),
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
    for part in old & replaced:
        _check_ours(target, part)
    found = open_checkpoint(target).format
    if found.key != OWN_FORMAT:
        raise ValueError(
            f"{target} has a checkpoint of {found.name}, which `from_preset` would "
            "still load. Save into another directory."
        )
    for part in old - new:
        if new & _INSIDE.get(part, set()):
            raise ValueError(
                f"{target} has a {part} ({target / _PARTS[part][0]}), and the new "
                f"files ({', '.join(sorted(new))}) would replace only a part of it. "
                f"Save into another directory, or save a complete {part}."
            )
    patterns = [pattern for part in replaced for pattern in _PARTS[part]]
    return lambda name: any(fnmatch(name, pattern) for pattern in patterns)


def _check_ours(target: Path, part: str) -> None:
    """Raise if files have a part's names, but belong to something else."""
    config = target / _PARTS[part][0]
    files = ", ".join(map(str, _files_of(part, target)))
    try:
        name = read_json(config).get("registered_name")
    except FileNotFoundError:
        name = None
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{config} cannot be read, and files that a preset would replace may "
            f"belong to something else: {files}. Remove these files to save here, or "
            "save into another directory."
        ) from error
    if not isinstance(name, str) or name.startswith(("keras_hub>", "keras_nlp>")):
        raise ValueError(
            f"{target} has files that a preset would replace, but that keras_albert "
            f"did not save as a complete preset: {files}. Save into another directory, "
            "or move these files."
        )


def _files_of(part: str, directory: Path) -> list[Path]:
    return sorted(path for name in _PARTS[part] for path in directory.glob(name))
