"""The registry of foreign checkpoint formats that can be read and written.

This module defines no format; `keras_albert.conversion` registers its formats here, so
that imports go in one direction. It is imported when a format is first looked up.
"""

import abc
from pathlib import Path
from typing import Any

import keras

from keras_albert.presets.model_size import check_backbone_size
from keras_albert.utils.arguments import warn_of_depth
from keras_albert.utils.reading import read_json
from keras_albert.utils.registry import Registry

# The prefix of the registered names of this package's classes.
_OWN_PACKAGE = "keras_albert>"


class CheckpointFormat(abc.ABC):
    """A format of checkpoint directories, with its reader and writer.

    A model is a backbone or a task. Tasks are identified by their class names, the
    name of a subclass first.
    """

    # Its name in messages, and on the command line.
    name: str
    key: str

    @abc.abstractmethod
    def recognizes(self, directory: Path) -> bool:
        """Return whether a directory is in this format."""

    @abc.abstractmethod
    def backbone_arguments(self, directory: Path) -> dict[str, Any]:
        """Return the constructor arguments of the checkpoint's backbone."""

    @abc.abstractmethod
    def stored_shapes(self, directory: Path) -> list[tuple[int, ...]]:
        """Return the shapes of the weights in the checkpoint's files, if any."""

    @abc.abstractmethod
    def task_name(self, directory: Path) -> str | None:
        """Return the name of the task class for the checkpoint's head, or `None`."""

    @abc.abstractmethod
    def task_arguments(self, directory: Path, task: type) -> dict[str, Any]:
        """Return the arguments of a task class that the checkpoint defines."""

    def preprocessor_arguments(
        self, directory: Path, preprocessor: type
    ) -> dict[str, Any]:
        """Return the arguments of a preprocessor class that the checkpoint defines."""
        return {}

    @abc.abstractmethod
    def read_vocabulary(self, directory: Path) -> bytes:
        """Return the bytes of the checkpoint's SentencePiece model."""

    @abc.abstractmethod
    def load_weights(
        self, model: Any, directory: Path, keep_head: bool = False
    ) -> None:
        """Load all weights of a model or none, and warn of those that stay new."""

    @abc.abstractmethod
    def write(self, model: Any, directory: Path, vocabulary: bytes | None) -> None:
        """Write a model's files into an existing, empty directory."""

    @abc.abstractmethod
    def names(self, model: Any) -> dict[str, str]:
        """Return the foreign names of a model's weights, by the paths of variables."""

    def for_model(self, model: Any) -> "CheckpointFormat":
        """Return the variant of the format that a model is written in."""
        return self

    def refuse(self, directory: Path) -> None:  # noqa: B027  (most need none)
        """Raise if a directory has a model of this library that cannot be read."""

    def load_backbone(
        self, cls: type, directory: Path, load_weights: bool = True, **kwargs: Any
    ) -> Any:
        """Build a backbone."""
        arguments = self.backbone_arguments(directory)
        shapes = self.stored_shapes(directory)
        check_backbone_size(arguments, shapes, f"The config of {directory}")
        warn_of_depth(kwargs.get("num_layers"), arguments["num_layers"])
        backbone = cls(**(arguments | kwargs))
        backbone.loaded_from = self.key
        if load_weights:
            self.load_weights(backbone, directory)
            backbone.pretrained = True
        return backbone


_FORMATS: Registry[CheckpointFormat] = Registry()

# Adds a module that calls `register_format`, and is not imported before.
register_formats_of = _FORMATS.add_module


def register_format(checkpoint_format: CheckpointFormat) -> None:
    """Register a format for `from_preset` and the exports."""
    _FORMATS.add(checkpoint_format.key, checkpoint_format)


def find_format(directory: Path) -> CheckpointFormat | None:
    """Find the format of a directory; `None` for a preset of this package."""
    formats = _FORMATS.entries().values()
    found = next((each for each in formats if each.recognizes(directory)), None)
    if found is None:
        for each in formats:
            each.refuse(directory)
    elif is_own_preset(directory):
        msg = (
            f"{directory} has both a preset of keras_albert and a checkpoint of "
            f"{found.name}. Move one of them to a separate directory."
        )
        raise ValueError(msg)
    return found


def is_own_preset(directory: Path) -> bool:
    """Return whether a directory has the config of a backbone of this package."""
    path = directory / "config.json"
    if not path.is_file():
        return False
    return is_own_name(read_json(path).get("registered_name"))


def is_own_name(name: Any) -> bool:
    """Return whether Keras' name of a class is that of one here, or of a subclass."""
    if not isinstance(name, str):
        return False
    found = keras.saving.get_registered_object(name)
    bases = found.mro() if isinstance(found, type) else []
    names = (name, *map(keras.saving.get_registered_name, bases))
    return any(each.startswith(_OWN_PACKAGE) for each in names)


def get_format(key: str) -> CheckpointFormat:
    """Return a format by its name on the command line."""
    formats = _FORMATS.entries()
    if key not in formats:
        msg = f"There is no checkpoint format {key!r}. Choose: {', '.join(formats)}."
        raise ValueError(msg)
    return formats[key]
