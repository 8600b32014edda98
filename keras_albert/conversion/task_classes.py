"""Finding the class of a checkpoint."""

import os
from pathlib import Path
from typing import Any

from keras_albert import tasks
from keras_albert.backbone import AlbertBackbone
from keras_albert.presets.checkpoint_formats import find_format
from keras_albert.presets.handles import local_directory
from keras_albert.utils.arguments import MissingArgumentError
from keras_albert.utils.reading import read_optional_json


def find_class(name: str) -> Any:
    """Return the class of a task, or `AlbertBackbone`, by its name."""
    known: dict[str, Any] = {AlbertBackbone.__name__: AlbertBackbone}
    exported = ((each, getattr(tasks, each)) for each in tasks.__all__)
    known |= {each: value for each, value in exported if isinstance(value, type)}
    if name not in known:
        msg = f"There is no class {name!r}. Choose one of: {', '.join(sorted(known))}."
        raise ValueError(msg)
    return known[name]


def class_of(directory: Path) -> Any:
    """Return the class of a checkpoint's head: a task, or `AlbertBackbone`."""
    source = find_format(directory)
    if source is not None:
        return find_class(source.task_name(directory) or AlbertBackbone.__name__)
    config = read_optional_json(directory / "task.json")
    name = str(config.get("registered_name", AlbertBackbone.__name__))
    return find_class(name.removeprefix("keras_albert>"))


def load_task(
    preset: str | os.PathLike[str], task: str | None = None, **kwargs: Any
) -> Any:
    """Load a task from any handle of `from_preset`."""
    cls: Any = AlbertBackbone
    if task is not None:
        cls = find_class(task)
    elif (directory := local_directory(preset)) is not None:
        cls = class_of(directory)
    if cls is AlbertBackbone:
        msg = (
            f"{preset} does not say what task it was trained for. Fine-tune it first, "
            "or choose the class with --task, for instance AlbertTextEmbedder, whose "
            "head has no weights."
        )
        raise ValueError(msg)
    try:
        return cls.from_preset(preset, **kwargs)
    except MissingArgumentError as error:
        msg = (
            f"{preset} has no head of an {cls.__name__}. Train one first: "
            "`keras-albert finetune TASK --preset ...`."
        )
        raise ValueError(msg) from error
