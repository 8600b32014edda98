"""How a task is loaded and saved: its backbone, its preprocessor and its head."""

import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import keras

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.presets.checkpoint_exports import CheckpointExports
from keras_albert.presets.checkpoint_formats import CheckpointFormat
from keras_albert.presets.preset_files import TASK_FILE, TASK_WEIGHTS_FILE
from keras_albert.presets.preset_mixin import PresetMixin
from keras_albert.presets.stored_weights import check_finite, check_stored_weights
from keras_albert.tasks.base.preprocessor_check import (
    check_preprocessor,
    check_vocabulary_size,
)
from keras_albert.utils.reading import read_json

if TYPE_CHECKING:
    from keras_hub.models import Task as _Task
else:
    _Task = object

# The arguments that say what the outputs of a head are.
_CLASSES = {"num_classes", "labels"}


class TaskPresets(CheckpointExports, PresetMixin, _Task):
    """What a task adds to `from_preset` and `save_to_preset`, as a mixin."""

    backbone_cls = AlbertBackbone

    # Whether it reads `pooled_output`; a checkpoint without a pooler says so then.
    uses_pooler = True

    # Layers of its head that mean the same in any other task that has them.
    shared_head_layers: tuple[str, ...] = ()

    def save_task_weights(self, filepath: str | os.PathLike[str]) -> None:
        """Save the weights that are not the backbone's; see KerasHub's `Task`."""
        keras.saving.save_weights(self, filepath, objects_to_skip=self._not_head())

    def load_task_weights(self, filepath: str | os.PathLike[str]) -> None:
        """Load the weights that are not the backbone's; see KerasHub's `Task`.

        Args:
            filepath: string or path. What `save_task_weights` wrote.

        Raises:
            ValueError: If the file does not hold just the weights of this head, or
                one of them is NaN or infinite.
        """
        inside = {id(weight) for weight in self.backbone.weights}
        head = [weight for weight in self.weights if id(weight) not in inside]
        check_stored_weights(head, Path(filepath))
        keras.saving.load_weights(self, filepath, objects_to_skip=self._not_head())

    def _not_head(self) -> list[Any]:
        # KerasHub forgets the optimizer, whose state is twice the model's size.
        return [*self.backbone._flatten_layers(), self.optimizer]

    @classmethod
    def _take_backbone_arguments(cls, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Take out what only the backbone knows, for instance `remat`."""
        if kwargs.get("backbone") is not None:
            return {}
        of_backbone, of_task = (
            set(inspect.signature(each).parameters) for each in (AlbertBackbone, cls)
        )
        names = of_backbone - of_task - {"dtype"}
        return {name: kwargs.pop(name) for name in names & set(kwargs)}

    @classmethod
    def _from_checkpoint(
        cls,
        checkpoint_format: CheckpointFormat,
        directory: Path,
        load_weights: bool = True,
        dtype: Any = None,
        **kwargs: Any,
    ) -> Self:
        of_backbone = cls._take_backbone_arguments(kwargs)
        # Other classes than the checkpoint's need a new head.
        keep_head = not _CLASSES.isdisjoint(kwargs)
        known = checkpoint_format.task_arguments(directory, cls)
        for name in set(known) - (_CLASSES if keep_head else set()):
            kwargs.setdefault(name, known[name])
        load_weights = load_weights and "backbone" not in kwargs
        if "backbone" not in kwargs:
            kwargs["backbone"] = checkpoint_format.load_backbone(
                AlbertBackbone,
                directory,
                load_weights=False,
                dtype=dtype,
                **of_backbone,
            )
            # Known to `compile`, which the constructor calls.
            kwargs["backbone"].pretrained = load_weights
        if "preprocessor" not in kwargs:
            kwargs["preprocessor"] = cls.preprocessor_cls.from_preset(directory)
            check_vocabulary_size(
                kwargs["backbone"], kwargs["preprocessor"].tokenizer, str(directory)
            )
        task = cls(**kwargs)
        if load_weights:
            checkpoint_format.load_weights(task, directory, keep_head)
        return task

    @classmethod
    def _from_own_preset(
        cls, directory: Path, load_weights: bool = True, **kwargs: Any
    ) -> Self:
        # Whatever the saved one was.
        kwargs.setdefault("compile", True)
        saved = _saved_class(directory)
        is_other = not issubclass(saved, cls)
        if of_backbone := cls._take_backbone_arguments(kwargs):
            if "dtype" in kwargs:
                of_backbone["dtype"] = kwargs.pop("dtype")
            # KerasHub loads those of a backbone under the head that was saved.
            kwargs["backbone"] = AlbertBackbone.from_preset(
                directory, load_weights=load_weights and is_other, **of_backbone
            )
        path = directory / TASK_WEIGHTS_FILE
        # KerasHub loads the preset's vocabulary into a preprocessor that is given.
        if (given := kwargs.get("preprocessor")) is not None:
            kwargs["preprocessor"] = None
        task = super()._from_own_preset(directory, load_weights=load_weights, **kwargs)
        if given is not None:
            check_preprocessor(task.backbone, given)
            task.preprocessor = given
        # KerasHub leaves a head random whose file is missing. With `num_classes` it is
        # to be a new one.
        keeps_head = load_weights and not is_other and "num_classes" not in kwargs
        in_backbone = {id(weight) for weight in task.backbone.weights}
        is_learned = any(id(w) not in in_backbone for w in task.trainable_weights)
        if keeps_head and is_learned and not path.exists():
            msg = (
                f"{path} is missing: the weights of the head. Copy or download the "
                "whole preset again. For a new head, of random weights, pass "
                "`num_classes` or build the task on `AlbertBackbone.from_preset(...)`."
            )
            raise ValueError(msg)
        if load_weights and is_other:
            # KerasHub takes the backbone alone from the preset of another task.
            names = set(cls.shared_head_layers)
            names &= set(getattr(saved, "shared_head_layers", ()))
            if names:
                others = [x for x in task.layers if x.name not in names]
                check_finite(path)
                keras.saving.load_weights(
                    task,
                    path,
                    objects_to_skip=[*task._not_head(), *others],
                )
        return task


def load_saved_task(preset: str) -> Any:
    """Load a preset as the task that it was saved from.

    `AlbertTask.from_preset` would not do: one backbone has many tasks.

    Args:
        preset: string. A directory that a task's `save_to_preset` wrote.

    Returns:
        The task.
    """
    saved: Any = _saved_class(Path(preset))
    return saved.from_preset(preset)


def _saved_class(directory: Path) -> type:
    """Give the class of the task that a preset was saved from; `object` if of none."""
    path = directory / TASK_FILE
    if not path.is_file():
        return object
    name = read_json(path)["registered_name"]
    saved = keras.saving.get_registered_object(name)
    if not (isinstance(saved, type) and issubclass(saved, TaskPresets)):
        msg = (
            f"{path} describes a {name!r}, which is no ALBERT task that is known here. "
            "Import the module that defines it, or copy the preset again."
        )
        raise ValueError(msg)
    return saved
