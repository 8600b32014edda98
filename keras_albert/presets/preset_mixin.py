"""Loading and saving of backbones, tokenizers, preprocessors and tasks."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

import keras
import keras_hub

from keras_albert.presets.checkpoint import Checkpoint, open_checkpoint
from keras_albert.presets.handles import BUILTIN_PRESETS, local_directory
from keras_albert.presets.preset_files import (
    CONFIG_FILE,
    METADATA_FILE,
    check_readable,
    preset_directory,
    write_checkpoint,
)
from keras_albert.utils.arguments import MissingArgumentError
from keras_albert.utils.keras_internals import all_layers
from keras_albert.utils.reading import read_json, reading, write_json

_REMEDY = "Copy or download it again, or pass the missing arguments."

# Parts of Keras' messages if a class does not accept the arguments of its config.
_NOT_BUILT = ("could not be deserialized properly", "Error when deserializing class")


class PresetMixin:
    """KerasHub's preset methods, extended; a base before KerasHub's class."""

    # As in KerasHub, `cls.presets` lists the built-in names.
    presets: ClassVar[dict[str, Any]] = {
        name: {"metadata": asdict(preset)} for name, preset in BUILTIN_PRESETS.items()
    }

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike[str],
        load_weights: bool = True,
        dtype: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Load from a built-in name, a local directory or a model hub.

        Args:
            preset: string or path. A built-in name (`cls.presets` lists them); a
                local directory with a preset of this package, or files of KerasHub,
                transformers, sentence-transformers or google-research, of an ALBERT,
                BERT, ELECTRA or DistilBERT; a handle: `hf://`, `kaggle://`,
                `modelscope://`; or the address of such a directory in a remote
                storage, such as `s3://bucket/preset`.
            load_weights: bool. `False` leaves the weights of a model random. Defaults
                to `True`.
            dtype: string or `keras.DTypePolicy`. Defaults to `None`: Keras' policy, or
                the preset's if it is quantized.
            **kwargs: Constructor arguments that override the preset's, such as
                `num_layers`; for a task also those of its backbone, such as
                `remat=True`, and `preprocessor=None` for a task without one.

        Returns:
            An instance of this class.

        Raises:
            ValueError: If the handle is unknown, or files are damaged or contradict
                each other.
            ConnectionError: If a hub cannot be reached and its files are not in the
                cache, or if a remote storage cannot be reached.
            ImportError: If the package of a remote storage is not installed.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> preset = "albert_tiny_en_uncased"
            >>> classifier = AlbertClassifier.from_preset(preset, num_classes=2)
            >>> classifier.num_classes
            2
        """
        checkpoint: Any = preset  # Opened, if code of this package has read it.
        if dtype is not None:
            kwargs["dtype"] = dtype
        if not isinstance(checkpoint, Checkpoint):
            directory = local_directory(preset)
            if directory is None:
                if not load_weights:
                    kwargs["load_weights"] = False
                return super().from_preset(os.fspath(preset), **kwargs)  # type: ignore[misc]
            checkpoint = open_checkpoint(directory)
        with _loading(checkpoint.directory, kwargs):
            checkpoint.check(**kwargs)
            return cls._from_checkpoint(checkpoint, load_weights, **kwargs)

    @classmethod
    def _from_checkpoint(
        cls, checkpoint: Checkpoint, load_weights: bool = True, **kwargs: Any
    ) -> Self:
        """Build an instance from an opened checkpoint; subclasses implement it."""
        raise NotImplementedError

    def save_to_preset(self, preset_dir: str | os.PathLike[str], **kwargs: Any) -> None:
        """Save everything that `from_preset` needs.

        At any time, even if this process is killed, the directory has either its old
        content or the new preset. An earlier preset there is replaced completely;
        files that belong to no preset, such as a `README.md`, are kept. LoRA's update
        is added to the matrices; `backbone.save_lora_weights` stores it separately.

        Args:
            preset_dir: string or path. The directory to write, or a new one in a
                remote storage, such as `s3://bucket/preset`.
            **kwargs: As in KerasHub, for instance `max_shard_size` in GB.

        Raises:
            ConnectionError: If a remote storage cannot be reached or written to.
            FileExistsError: If there is something at a remote address.
            NotADirectoryError: If `preset_dir` is a file.
            ValueError: If files there conflict with the new ones: another library's
                checkpoint, or a task if only a backbone is saved; or if the class of
                the model or of a part is not registered; or if other processes have
                parts of the weights. Nothing is changed then.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> preset = "albert_tiny_en_uncased"
            >>> classifier = AlbertClassifier.from_preset(preset, num_classes=2)
            >>> classifier.save_to_preset("mine")
            >>> loaded = AlbertClassifier.from_preset("mine")
        """
        _check_registered(self)
        check_readable(getattr(self, "variables", ()))
        with preset_directory(preset_dir) as directory:
            super().save_to_preset(str(directory), **kwargs)  # type: ignore[misc]
            if (directory / METADATA_FILE).exists():
                _name_tasks(directory)

    def export_to_transformers(
        self,
        path: str | os.PathLike[str],
        tokenizer: Any = None,
        model_type: str | None = None,
    ) -> Path:
        """Write a checkpoint that transformers loads with `from_pretrained`.

        `config.json`, `model.safetensors`, and the files of the vocabulary. Formats of
        other libraries: `keras_albert.checkpoints.export_checkpoint`.

        Args:
            path: string or path. The directory to write.
            tokenizer: An `AlbertTokenizer`. Defaults to `None`: the model's.
            model_type: string or `None`. "albert", "bert", "electra" or "distilbert".
                Defaults to `None`: the type of the files it was loaded from if the
                model still fits it, or the type that its sizes fit.

        Returns:
            The directory.

        Raises:
            ValueError: If transformers has no equivalent class, or weights are
                quantized or not finite.
            NotADirectoryError: If `path` is a file.
            FileExistsError: If it contains files of another checkpoint.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> path = sentiment.export_to_transformers("sentiment")
            >>> (path / "model.safetensors").exists()
            True
        """
        other = "" if model_type in (None, "albert") else f"-{model_type}"
        key, is_exact = f"transformers{other}", model_type is not None
        return write_checkpoint(self, path, key, tokenizer, is_exact)

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the whole model; see `keras.Model.save`.

        Example:
            >>> import keras
            >>> from keras_albert import AlbertBackbone
            >>> backbone = AlbertBackbone.from_preset("albert_tiny_en_uncased")
            >>> backbone.save("tiny.keras")
            >>> keras.models.load_model("tiny.keras").num_layers
            4
        """
        _check_no_rounding(self)
        super().save(*args, **kwargs)  # type: ignore[misc]

    def save_weights(self, *args: Any, **kwargs: Any) -> None:
        """Save the weights; see `keras.Model.save_weights`.

        Example:
            >>> from keras_albert import AlbertBackbone
            >>> backbone = AlbertBackbone.from_preset("albert_tiny_en_uncased")
            >>> backbone.save_weights("tiny.weights.h5")
            >>> backbone.load_weights("tiny.weights.h5")
        """
        _check_no_rounding(self)
        super().save_weights(*args, **kwargs)  # type: ignore[misc]

    def save_own_variables(self, store: Any) -> None:
        """Save a layer's variables; Keras calls this for any file."""
        # The file of a task's head has no matrices of the backbone.
        if not hasattr(self, "backbone"):
            _check_no_rounding(self)
        super().save_own_variables(store)  # type: ignore[misc]


def _check_registered(saved: Any) -> None:
    """Raise if the class of an object, or of a part of it, cannot be loaded."""
    name = keras.saving.get_registered_name(type(saved))
    if keras.saving.get_registered_object(name) is None:
        raise ValueError(
            f"The class {type(saved).__name__} is not registered. Put "
            "@keras.saving.register_keras_serializable(package='NAME') above it."
        )
    for part in ("backbone", "preprocessor", "tokenizer"):
        if getattr(saved, part, None) is not None:
            _check_registered(getattr(saved, part))


def _name_tasks(directory: Path) -> None:
    """Name KerasHub's tasks in the metadata, instead of the first bases of ours."""
    name = read_json(directory / CONFIG_FILE)["registered_name"]
    backbone_cls: Any = keras.saving.get_registered_object(name)
    tasks = {
        base.__name__
        for cls in keras.saving.get_custom_objects().values()
        if isinstance(cls, type)
        and issubclass(cls, PresetMixin)
        and issubclass(backbone_cls, getattr(cls, "backbone_cls", ()))
        for base in cls.mro()
        if issubclass(base, keras_hub.models.Task)
        and base is not keras_hub.models.Task
        and getattr(keras_hub.models, base.__name__, None) is base
    }
    path = directory / METADATA_FILE
    write_json(path, read_json(path) | {"tasks": sorted(tasks)})


@contextmanager
def _loading(directory: Path, given: Collection[str]) -> Iterator[None]:
    """Name the directory in any error, unless an argument may have caused it."""
    # Raise as well if the directory was replaced while its files were read.
    before = directory.stat()
    try:
        yield
    except Exception as error:
        # Keras wraps it in a page of advice and the whole config, once for each level.
        while isinstance(error.__context__, Exception) and any(
            part in str(error) for part in _NOT_BUILT
        ):
            error = error.__context__
        if isinstance(error, MissingArgumentError):
            msg = f"{error} {directory} has no head of this task."
            raise MissingArgumentError(msg) from None
        if given and isinstance(error, TypeError | ValueError):
            raise error from None
        with reading(directory, _REMEDY):
            raise error from None
    if not (directory.exists() and os.path.samestat(before, directory.stat())):
        msg = f"{directory} was replaced while it was being loaded. Load it again."
        raise ValueError(msg)


def _check_no_rounding(model: Any) -> None:
    """Raise if a file would change the outputs of a model."""
    for layer in all_layers(model):
        mode = layer.quantization_mode
        if getattr(layer, "lora_enabled", False) and mode in ("int8", "int4"):
            raise ValueError(
                "A file contains LoRA's update inside the matrices, and "
                f"{mode} would round it. Save it with `backbone.save_lora_weights`, "
                "and the head with `save_task_weights`."
            )
