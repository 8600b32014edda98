"""Finding the class of a checkpoint."""

import os
from typing import Any

from keras_albert import tasks
from keras_albert.backbone import AlbertBackbone
from keras_albert.presets.checkpoint import Checkpoint, open_checkpoint
from keras_albert.presets.handles import local_directory
from keras_albert.utils.arguments import MissingArgumentError


def find_class(name: str) -> Any:
    """Return the class of a task, or `AlbertBackbone`, by its name."""
    known: dict[str, Any] = {AlbertBackbone.__name__: AlbertBackbone}
    exported = ((each, getattr(tasks, each)) for each in tasks.__all__)
    known |= {each: value for each, value in exported if isinstance(value, type)}
    if name not in known:
        msg = f"There is no class {name!r}. Choose one of: {', '.join(sorted(known))}."
        raise ValueError(msg)
    return known[name]


def class_of(checkpoint: Checkpoint) -> Any:
    """Return the class of a checkpoint's head: a task, or `AlbertBackbone`."""
    return find_class(checkpoint.task_name() or AlbertBackbone.__name__)


def load_task(
    preset: str | os.PathLike[str], task: str | None = None, **kwargs: Any
) -> Any:
    """Load a task from any handle of `from_preset`."""
    directory = local_directory(preset)
    source: Any = preset if directory is None else open_checkpoint(directory)
    cls: Any = AlbertBackbone
    if task is not None:
        cls = find_class(task)
    elif directory is not None:
        cls = class_of(source)
    if cls is AlbertBackbone:
        raise ValueError(
            f"{preset} does not say what task it was trained for. Fine-tune it first, "
            "or choose the class with --task, for instance AlbertTextEmbedder, whose "
            "head has no weights."
        )
    try:
        return cls.from_preset(source, **kwargs)
    except MissingArgumentError as error:
        raise ValueError(
            f"{preset} has no head of an {cls.__name__}. Train one first: "
            "`keras-albert finetune TASK --preset ...`."
        ) from error
