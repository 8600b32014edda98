"""Loading and saving of a task: its backbone, its preprocessor and its head."""

import inspect
import os
from pathlib import Path
from typing import Any

import keras

from keras_albert.backbone import AlbertBackbone
from keras_albert.presets.checkpoint import OWN_FORMAT, Checkpoint, open_checkpoint
from keras_albert.presets.weight_files import check_stored_weights, head_weights
from keras_albert.types import Task
from keras_albert.utils.arguments import check_kwargs
from keras_albert.utils.keras_internals import all_layers

# The arguments for the outputs of a head.
_CLASSES = {"num_classes", "labels"}

# Arguments that constructors of tasks pass on to Keras and KerasHub.
_OF_ANY_MODEL = ("compile", "load_weights", "name", "trainable")

# Embeddings may be padded to a multiple of up to this number.
_PADDING = 128


def save_head(task: Task, filepath: str | os.PathLike[str]) -> None:
    """Save the weights of a head."""
    keras.saving.save_weights(task, filepath, objects_to_skip=_not_head(task))


def load_head(task: Task, filepath: str | os.PathLike[str]) -> None:
    """Load the weights of a head, after a check."""
    check_stored_weights(head_weights(task), Path(filepath))
    keras.saving.load_weights(task, filepath, objects_to_skip=_not_head(task))


def _not_head(task: Task) -> list[Any]:
    # KerasHub does not skip the optimizer, whose state is twice the model's size.
    return [*all_layers(task.backbone), task.optimizer]


def _take_backbone_arguments(cls: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Remove and return the arguments of the backbone alone, such as `remat`."""
    # Early releases of Python 3.11 read `__new__` of a class that inherits
    # `__init__`.
    classes: list[Any] = [AlbertBackbone, *cls.mro()[:-1]]
    of_backbone, of_task, *of_bases = (
        set(inspect.signature(each.__init__).parameters) for each in classes
    )
    check_kwargs(
        cls,
        kwargs,
        inherited={*_OF_ANY_MODEL, *of_backbone, *of_task}.union(*of_bases),
        hint=f"Pass arguments of `{cls.__name__}` or of `AlbertBackbone`.",
    )
    if (backbone := kwargs.get("backbone")) is not None:
        if not isinstance(backbone, AlbertBackbone):
            msg = f"`backbone` must be an AlbertBackbone. Received: {backbone!r}"
            raise TypeError(msg)
        return {}
    names = of_backbone - of_task - {"dtype"}
    return {name: kwargs.pop(name) for name in names & set(kwargs)}


def load_task(
    cls: Any,
    checkpoint: Checkpoint,
    load_weights: bool = True,
    dtype: Any = None,
    **kwargs: Any,
) -> Any:
    """Load a task of a class from an opened checkpoint."""
    of_backbone = _take_backbone_arguments(cls, kwargs)
    built: Any = checkpoint.task_class(cls)
    known = checkpoint.task_arguments(cls)
    # Classes that differ from the checkpoint's need a new head.
    keep_head = "num_classes" in kwargs
    for name in set(known) - (_CLASSES if keep_head else set()):
        kwargs.setdefault(name, known[name])
    cls._check_new_head(kwargs)
    keep_backbone = "backbone" in kwargs
    if not keep_backbone:
        kwargs["backbone"] = checkpoint.load_backbone(
            AlbertBackbone, load_weights=False, dtype=dtype, **of_backbone
        )
        # Read by `compile`, which the constructor calls.
        kwargs["backbone"].pretrained = load_weights
    if not keep_head:
        checkpoint.check_head(known)
    if "preprocessor" not in kwargs:
        found = checkpoint.load_preprocessor(built.preprocessor_cls)
        if checkpoint.format.key != OWN_FORMAT:
            check_vocabulary_size(kwargs["backbone"], found.tokenizer, checkpoint)
        kwargs["preprocessor"] = found
    task = built.from_config(kwargs)
    if load_weights:
        checkpoint.load_weights(task, keep_head, keep_backbone)
    return task


def load_saved_task(preset: str) -> Any:
    """Load a preset as the task that was saved; a backbone has several tasks."""
    checkpoint: Any = open_checkpoint(Path(preset))
    return checkpoint.saved_task.from_preset(checkpoint)


def check_preprocessor(backbone: AlbertBackbone, preprocessor: Any) -> None:
    """Check that the backbone can read the output of a preprocessor, if any."""
    if preprocessor is None:
        return
    if not hasattr(preprocessor, "max_length"):
        raise TypeError(
            "`preprocessor` must be a preprocessor of this package, such as "
            f"AlbertClassifierPreprocessor. Received: {preprocessor!r}"
        )
    if preprocessor.max_length > backbone.max_sequence_length:
        raise ValueError(
            f"The preprocessor makes rows of up to {preprocessor.max_length} tokens, "
            f"but the backbone reads at most {backbone.max_sequence_length}. Build the "
            f"preprocessor with max_sequence_length={backbone.max_sequence_length}."
        )
    if preprocessor.tokenizer.proto is None:
        return
    size = preprocessor.tokenizer.vocabulary_size()
    if size > backbone.vocabulary_size:
        raise ValueError(
            f"The vocabulary has {size} tokens, but the backbone embeds "
            f"{backbone.vocabulary_size}. Use the vocabulary that the backbone was "
            "made with."
        )


def check_vocabulary_size(
    backbone: AlbertBackbone, tokenizer: Any, source: Checkpoint
) -> None:
    """Check that a vocabulary belongs to the embeddings of a checkpoint."""
    size, embedded = tokenizer.vocabulary_size(), backbone.vocabulary_size
    if not embedded - _PADDING < size <= embedded:
        raise ValueError(
            f"The vocabulary in {source} has {size:,} tokens, but its weights embed "
            f"{embedded:,}: they are not of the same checkpoint. Copy the vocabulary "
            "there that belongs to the weights, or pass a `preprocessor` with it."
        )
