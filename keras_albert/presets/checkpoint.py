"""Opened checkpoints, their formats, and their sizes before memory is allocated."""

import abc
import importlib
from collections.abc import Callable, Collection, Mapping
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import keras

from keras_albert.presets.weight_files import Shape
from keras_albert.utils.arguments import (
    MAX_LAYERS,
    check_at_most,
    check_choice,
    check_depth,
    check_positive,
    warn_of_depth,
)
from keras_albert.utils.reading import read_optional_json, reading

OWN_FORMAT = "keras-albert"

# Where the formats are, in the order in which files are compared with them. Imported
# when a directory is first opened, as folders import downwards only.
_MODULES = ("keras_albert.checkpoints", "keras_albert.presets.own_preset")

# The prefix of the registered names of this package's classes.
OWN_PACKAGE = "keras_albert>"

_Found = TypeVar("_Found")


class Files:
    """A directory, of which each file is read once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._read: dict[Any, Any] = {}

    def read(self, reader: Callable[[Path], _Found], name: str = "") -> _Found:
        """Return what a function reads from a file or, without a name, from all."""
        if (reader, name) not in self._read:
            self._read[reader, name] = reader(self.directory / name)
        return self._read[reader, name]

    def json(self, name: str) -> dict[str, Any]:
        """Return the object of a JSON file; an empty one without a file."""
        return self.read(read_optional_json, name)

    def has(self, name: str) -> bool:
        """Return whether there is a file with this name."""
        return (self.directory / name).is_file()


class Checkpoint(abc.ABC):
    """A directory with a model, opened: what `from_preset` reads it by.

    A model is a backbone or a task. Tasks are identified by the names of their classes,
    a subclass first.
    """

    def __init__(self, format: "CheckpointFormat", files: Files) -> None:  # noqa: A002
        self.format, self.files, self.directory = format, files, files.directory

    def __str__(self) -> str:
        return str(self.directory)

    @abc.abstractmethod
    def backbone_arguments(self) -> dict[str, Any]:
        """Return the constructor arguments of the backbone."""

    @abc.abstractmethod
    def stored_shapes(self) -> list[Shape]:
        """Return the shapes of all stored weights, if any."""

    @abc.abstractmethod
    def task_name(self) -> str | None:
        """Return the name of the task class for the stored head, or `None`."""

    def task_class(self, task: type) -> type:
        """Return the class to build: a task, or the subclass of it that was saved."""
        return task

    @abc.abstractmethod
    def task_arguments(self, task: type) -> dict[str, Any]:
        """Return the arguments of `task_class(task)` that the checkpoint defines."""

    def preprocessor_arguments(self, preprocessor: Any) -> dict[str, Any]:
        """Return the arguments of a preprocessor class that the checkpoint defines."""
        return {}

    @abc.abstractmethod
    def read_vocabulary(self) -> bytes:
        """Return the vocabulary, as `AlbertTokenizer` takes it."""

    @abc.abstractmethod
    def load_weights(
        self, model: Any, keep_head: bool = False, keep_backbone: bool = False
    ) -> None:
        """Load all weights of a model or none, and warn of those that stay new."""

    def check(self, **arguments: Any) -> None:  # noqa: B027  (others check as they read)
        """Raise if files are missing, damaged or contradictory."""

    def check_head(self, arguments: Mapping[str, Any]) -> None:
        """Raise if a task has far more classes than the files can contain."""
        labels, exits = arguments.get("labels"), arguments.get("exits")
        classes = arguments.get("num_classes") or len(labels or ())
        sizes = self.backbone_arguments()
        # Each class has a vector in each head.
        heads = sizes["num_layers"] if exits is True else exits or 1
        check_positive(num_classes=classes or 1, exits=heads)
        weights = classes * heads * sizes["hidden_dim"]
        check_size(weights, self.stored_shapes(), f"The task of {self}")

    def load_backbone(self, cls: Any, load_weights: bool = True, **kwargs: Any) -> Any:
        """Build a backbone."""
        arguments = self.backbone_arguments()
        source = f"The config of {self.directory}"
        check_backbone_size(arguments, self.stored_shapes(), source)
        warn_of_depth(kwargs.get("num_layers"), arguments["num_layers"])
        backbone = cls(**(arguments | kwargs))
        backbone.loaded_from = self.format.key
        if load_weights:
            self.load_weights(backbone)
            backbone.pretrained = True
        return backbone

    def load_tokenizer(self, cls: Any, **kwargs: Any) -> Any:
        """Build a tokenizer."""
        return cls(self.read_vocabulary(), **kwargs)

    def load_preprocessor(self, cls: Any, **kwargs: Any) -> Any:
        """Build a preprocessor."""
        if "tokenizer" not in kwargs:
            kwargs["tokenizer"] = self.load_tokenizer(cls.tokenizer_cls)
        kwargs = self.preprocessor_arguments(cls) | kwargs
        if "max_sequence_length" not in kwargs:
            length = self.backbone_arguments().get("max_sequence_length", 512)
            kwargs["max_sequence_length"] = length
        return cls(**kwargs)


class CheckpointFormat(abc.ABC):
    """A format of checkpoints: how it is recognized, opened and written."""

    # Its name in messages, and on the command line.
    name: str
    key: str

    opened: Callable[..., Checkpoint]  # The class of its opened directories.

    @abc.abstractmethod
    def recognizes(self, files: Files) -> bool:
        """Return whether files are in this format."""

    def open(self, files: Files) -> Checkpoint:
        """Return the checkpoint of files in this format."""
        return self.opened(self, files)

    @abc.abstractmethod
    def write(self, model: Any, directory: Path, vocabulary: bytes | None) -> None:
        """Write a model's files into an existing, empty directory."""

    @abc.abstractmethod
    def names(self, model: Any) -> dict[str, str]:
        """Return the foreign names of a model's weights, by the paths of variables."""

    def for_model(self, model: Any) -> "CheckpointFormat":
        """Return the variant of the format that a model is written in."""
        return self

    def refuse(self, files: Files) -> None:  # noqa: B027  (most need none)
        """Raise if files have a model of this library that cannot be read."""


@cache
def formats() -> dict[str, CheckpointFormat]:
    """Return all formats by key, other libraries' first."""
    modules = (importlib.import_module(name) for name in _MODULES)
    return {each.key: each for module in modules for each in module.FORMATS}


def get_format(key: str) -> CheckpointFormat:
    """Return a format by its name on the command line."""
    check_choice(formats(), format=key)
    return formats()[key]


def open_checkpoint(directory: Path) -> Checkpoint:
    """Open a directory in the format that its files have."""
    # Without files of another library it is a preset of this package, perhaps empty.
    files = Files(directory)
    *others, own = formats().values()
    found = next((each for each in others if each.recognizes(files)), None)
    if found is None:
        for each in others:
            each.refuse(files)
        return own.open(files)
    if own.recognizes(files):
        raise ValueError(
            f"{directory} has both a preset of keras_albert and a checkpoint of "
            f"{found.name}. Move one of them to a separate directory."
        )
    return found.open(files)


def is_own_name(name: Any) -> bool:
    """Return whether a registered name is a class of this package, or a subclass."""
    if not isinstance(name, str):
        return False
    found = keras.saving.get_registered_object(name)
    bases = found.mro() if isinstance(found, type) else []
    names = (name, *map(keras.saving.get_registered_name, bases))
    return any(each.startswith(OWN_PACKAGE) for each in names)


# Without files a model has random weights; the largest ALBERT has 223 million.
_MAX_WEIGHTS = 2**28

# The limit of any single size; products of sizes can still be printed.
_MAX_SIZE = 2**40

# int4 packs two weights into one element.
_WEIGHTS_AN_ELEMENT = 2

# Up to this excess a model is built, so that mismatches can be reported one by one.
_HARMLESS_WEIGHTS = 2**22
_HARMLESS_BLOCKS = 2**5

# The arrays of a block: six dense layers and two normalizations.
_ARRAYS_A_BLOCK = 16

_REMEDY = "Copy or download the file again, or correct it."

# The sizes of a backbone, and their defaults, if they have one.
_SIZES = {
    "vocabulary_size": None,
    "num_layers": None,
    "num_heads": None,
    "embedding_dim": None,
    "hidden_dim": None,
    "intermediate_dim": None,
    "num_groups": 1,
    "num_inner_repetitions": 1,
    "max_sequence_length": 512,
    "num_segments": 2,
}


def check_backbone_size(
    arguments: Mapping[str, Any], stored: Collection[tuple[int, ...]], source: str
) -> None:
    """Raise if a config describes a far larger model, before memory is allocated."""
    sizes = check_sizes(arguments, source)
    hidden, inner = sizes["hidden_dim"], sizes["intermediate_dim"]
    blocks = sizes["num_groups"] * sizes["num_inner_repetitions"]
    tables = ("vocabulary_size", "max_sequence_length", "num_segments")
    rows = sum(sizes[name] for name in tables)
    weights = rows * sizes["embedding_dim"]
    weights += blocks * (4 * hidden * hidden + 2 * hidden * inner)
    if rank := sizes.get("adapter_rank", 0):
        runs = sizes["num_layers"] * sizes["num_inner_repetitions"]
        weights += runs * rank * (10 * hidden + 2 * inner)
    check_size(weights, stored, source)
    if stored and blocks > len(stored) / _ARRAYS_A_BLOCK + _HARMLESS_BLOCKS:
        raise ValueError(
            f"{source} describes a model of {blocks:,} blocks, and its files have "
            f"{len(stored):,} arrays. Copy or download both again."
        )


def check_size(weights: int, stored: Collection[tuple[int, ...]], source: str) -> None:
    """Raise if a config describes more weights than the files can contain."""
    elements = sum(map(prod, stored))
    most = _MAX_WEIGHTS
    if stored:
        most = elements * _WEIGHTS_AN_ELEMENT + _HARMLESS_WEIGHTS
    if weights > most:
        found = f"its files contain {elements:,}" if stored else "it has no files"
        raise ValueError(
            f"{source} describes a model of at least {weights:,} weights, and {found}. "
            "Copy or download both again."
        )


def check_sizes(arguments: Mapping[str, Any], source: str) -> dict[str, int]:
    """Check that the sizes of a backbone are valid."""
    sizes = {name: arguments.get(name, _SIZES[name]) for name in _SIZES}
    if arguments.get("adapter_rank") is not None:
        sizes["adapter_rank"] = arguments["adapter_rank"]
    with reading(source, _REMEDY):
        check_positive(**sizes)
        check_at_most(_MAX_SIZE, **sizes)
        check_depth(sizes["num_layers"], sizes["num_groups"])
        depth = sizes["num_layers"] * sizes["num_inner_repetitions"]
        check_at_most(MAX_LAYERS, **{"num_layers * num_inner_repetitions": depth})
        if sizes["hidden_dim"] % sizes["num_heads"]:
            raise ValueError("`hidden_dim` is not a multiple of `num_heads`")
    return sizes
