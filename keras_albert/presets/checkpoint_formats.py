"""The list of foreign checkpoint formats that can be read and written.

This module stands low and knows no format; `keras_albert.conversion` registers
its formats here when the package is imported, so that the arrow runs one way.
"""

import abc
from pathlib import Path
from typing import Any, ClassVar

from keras_albert.presets.model_size import check_backbone_size
from keras_albert.presets.reading import read_json

# How the registered names of our classes begin.
OWN_PACKAGE = "keras_albert>"


class CheckpointFormat(abc.ABC):
    """How one kind of checkpoint directory is read and written.

    A model is a backbone or a task. Tasks are known by their class names, a
    subclass' own name first.
    """

    # What a message calls it, and what a command line does.
    name: ClassVar[str]
    key: ClassVar[str]

    @abc.abstractmethod
    def recognizes(self, directory: Path) -> bool:
        """Say whether a directory holds this format."""

    @abc.abstractmethod
    def backbone_arguments(self, directory: Path) -> dict[str, Any]:
        """Give the arguments that build the checkpoint's backbone."""

    @abc.abstractmethod
    def stored_shapes(self, directory: Path) -> list[tuple[int, ...]]:
        """List the shapes of the weights in the checkpoint's files; none without."""

    @abc.abstractmethod
    def task_name(self, directory: Path) -> str | None:
        """Name our class for the checkpoint's head; `None` where it has none."""

    @abc.abstractmethod
    def task_arguments(self, directory: Path, task: type) -> dict[str, Any]:
        """Give the arguments of a task class that the checkpoint knows."""

    def preprocessor_arguments(
        self, directory: Path, preprocessor: type
    ) -> dict[str, Any]:
        """Give the arguments of a preprocessor's class that the checkpoint knows."""
        return {}

    @abc.abstractmethod
    def read_vocabulary(self, directory: Path) -> bytes:
        """Give the bytes of the checkpoint's SentencePiece model."""

    @abc.abstractmethod
    def load_weights(
        self, model: Any, directory: Path, keep_head: bool = False
    ) -> None:
        """Fill a model, all of it or nothing, and warn of what stays new.

        Args:
            model: A backbone or a task.
            directory: Path. The checkpoint.
            keep_head: bool. Leave a task's head as it is. Defaults to `False`.
        """

    @abc.abstractmethod
    def write(self, model: Any, directory: Path, vocabulary: bytes | None) -> None:
        """Write a model's files into a directory that exists and is empty."""

    @abc.abstractmethod
    def names(self, model: Any) -> dict[str, str]:
        """Give the foreign name of each of a model's weights, by our paths."""

    def load_backbone(
        self, cls: type, directory: Path, load_weights: bool = True, **kwargs: Any
    ) -> Any:
        """Build a backbone.

        Args:
            cls: The backbone's class.
            directory: Path. The checkpoint.
            load_weights: bool. `False` for random weights. Defaults to `True`.
            **kwargs: Arguments that are to differ from the checkpoint's.

        Returns:
            The backbone.

        Raises:
            ValueError: If files are damaged, or cannot hold what the config describes.
        """
        arguments = self.backbone_arguments(directory)
        shapes = self.stored_shapes(directory)
        check_backbone_size(arguments, shapes, f"The config of {directory}")
        backbone = cls(**(arguments | kwargs))
        if load_weights:
            self.load_weights(backbone, directory)
            backbone.pretrained = True
        return backbone


_FORMATS: dict[str, CheckpointFormat] = {}


def register_format(checkpoint_format: CheckpointFormat) -> None:
    """Teach `from_preset` and the exports a format."""
    _FORMATS[checkpoint_format.key] = checkpoint_format


def find_format(directory: Path) -> CheckpointFormat | None:
    """Find the format of a directory.

    Args:
        directory: Path. A local directory.

    Returns:
        The first registered format that recognizes it; `None` for a preset of our
        own, which KerasHub's loader reads.

    Raises:
        ValueError: If it holds a preset of our own as well.
    """
    matches = (known for known in _FORMATS.values() if known.recognizes(directory))
    found = next(matches, None)
    if found is not None and is_own_preset(directory):
        msg = (
            f"{directory} has both a preset of keras_albert and a checkpoint of "
            f"{found.name}. Move one of them to a directory of its own."
        )
        raise ValueError(msg)
    return found


def is_own_preset(directory: Path) -> bool:
    """Say whether a directory has the config of one of our backbones."""
    path = directory / "config.json"
    if not path.is_file():
        return False
    name = read_json(path).get("registered_name")
    return isinstance(name, str) and name.startswith(OWN_PACKAGE)


def get_format(key: str) -> CheckpointFormat:
    """Give the format that a command line calls by this key.

    Args:
        key: string. For instance `"transformers"`.

    Returns:
        The format.

    Raises:
        ValueError: If there is no such format.
    """
    if key not in _FORMATS:
        msg = f"There is no checkpoint format {key!r}. Choose: {', '.join(_FORMATS)}."
        raise ValueError(msg)
    return _FORMATS[key]
