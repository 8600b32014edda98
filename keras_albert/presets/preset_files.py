"""Which files a preset consists of, and where one may be saved."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from keras_albert.presets.atomic_directory import atomic_directory
from keras_albert.presets.checkpoint_formats import find_format
from keras_albert.presets.reading import read_json

CONFIG_FILE = "config.json"
METADATA_FILE = "metadata.json"
TASK_FILE = "task.json"
TASK_WEIGHTS_FILE = "task.weights.h5"
PREPROCESSOR_FILE = "preprocessor.json"
TOKENIZER_FILE = "tokenizer.json"
WEIGHTS_FILE = "model.weights.h5"
INDEX_FILE = "model.weights.json"
VOCABULARY_FILE = "assets/tokenizer/vocabulary.spm"

# What each part of a preset consists of, its config first.
_PARTS = {
    "task": (TASK_FILE, TASK_WEIGHTS_FILE),
    "backbone": (
        *(CONFIG_FILE, METADATA_FILE),
        *(WEIGHTS_FILE, INDEX_FILE, "model_*.weights.h5"),
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
    """Give a directory to save into, which becomes a preset when the block ends well.

    As `atomic_directory`: at each moment `target` holds the old preset or the new
    one. What was saved replaces all that an earlier save of the same part has written
    there: a task its whole preset, whatever its weights' files were called. A part
    may stand beside others, as a tokenizer beside a backbone, but replaces none that
    is inside of another: a backbone saved over a task would get its old head. Files
    that no save writes, such as a `README.md`, stay.

    Args:
        target: string or path. The directory of the preset.

    Yields:
        As `atomic_directory`.

    Raises:
        NotADirectoryError: If `target` is a file.
        ValueError: If it has another checkpoint, a task whose part was to be
            replaced, or files of a preset's names that are none. Nothing has changed
            then.
    """
    with atomic_directory(target, _plan) as temporary:
        yield temporary


def _plan(written: Path, target: Path) -> Callable[[str], bool]:
    new = {part for part in _PARTS if _files_of(part, written)}
    old = {part for part in _PARTS if _files_of(part, target)}
    replaced = new.union(*(_INSIDE.get(part, set()) for part in new))
    for part in old & replaced:
        _check_ours(target, part)
    found = find_format(target)
    if found is not None:
        msg = (
            f"{target} has a checkpoint of {found.name}, which `from_preset` would go "
            "on loading. Save into another directory."
        )
        raise ValueError(msg)
    for part in old - new:
        if new & _INSIDE.get(part, set()):
            msg = (
                f"{target} has a {part} ({target / _PARTS[part][0]}), and what is "
                f"saved ({', '.join(sorted(new))}) would replace but a part of it. "
                f"Save into another directory, or save a whole {part}."
            )
            raise ValueError(msg)
    patterns = [pattern for part in replaced for pattern in _PARTS[part]]
    return lambda name: any(fnmatch(name, pattern) for pattern in patterns)


def _check_ours(target: Path, part: str) -> None:
    """Find files that have a part's names, and are of something else."""
    config = target / _PARTS[part][0]
    try:
        name = read_json(config).get("registered_name")
    except (OSError, ValueError):
        name = None
    if not isinstance(name, str) or name.startswith(("keras_hub>", "keras_nlp>")):
        files = ", ".join(map(str, _files_of(part, target)))
        msg = (
            f"{target} has files that a preset would replace, and that are not of "
            f"one that keras_albert has saved whole: {files}. Save into another "
            "directory, or move them away."
        )
        raise ValueError(msg)


def _files_of(part: str, directory: Path) -> list[Path]:
    return sorted(path for name in _PARTS[part] for path in directory.glob(name))
