"""`from_preset` and `save_to_preset`, for backbones, tokenizers and tasks alike."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

from keras_albert.presets.atomic_directory import atomic_directory
from keras_albert.presets.builtin import BUILTIN_PRESETS
from keras_albert.presets.checkpoint_formats import CheckpointFormat, find_format
from keras_albert.presets.handles import local_directory
from keras_albert.presets.stored_weights import INDEX_FILE, shard_names


class PresetMixin:
    """What KerasHub's preset methods lack.

    Foreign checkpoints, errors that say what to do, a directory that is written
    whole or not at all, and quantized models that come back quantized. Stands
    before KerasHub's class in the list of bases.
    """

    # For KerasHub's users, who list built-in names with `cls.presets`.
    presets: ClassVar[dict[str, Any]] = {
        name: {"metadata": asdict(preset)} for name, preset in BUILTIN_PRESETS.items()
    }

    @classmethod
    def from_preset(cls, preset: str | os.PathLike[str], **kwargs: Any) -> Self:
        """Load from a built-in name, a local directory or a model hub.

        Args:
            preset: string or path. A built-in name (`cls.presets` lists them); a
                local directory with a preset of ours, KerasHub's, transformers' or
                google-research/albert's files; or a handle: `hf://`, `kaggle://`,
                `gs://`, `modelscope://`.
            **kwargs: `load_weights=False` for random weights, `dtype`, and the
                arguments of the constructor that are to differ from the preset; for
                a task those of its backbone as well, as `remat=True`.

        Returns:
            An instance of this class.

        Raises:
            ValueError: If the handle is unknown, or files are damaged or do not fit
                each other.
            ConnectionError: If a hub cannot be reached and its files are not in the
                cache.
        """
        directory = local_directory(preset)
        if directory is None:
            return super().from_preset(os.fspath(preset), **kwargs)  # type: ignore[misc, no-any-return]
        checkpoint_format = find_format(directory)
        if checkpoint_format is not None:
            return cls._from_checkpoint(checkpoint_format, directory, **kwargs)
        _check_config(directory)
        _check_weight_files(directory)
        try:
            return cls._from_own_preset(directory, **kwargs)
        except (KeyError, OSError) as error:
            msg = (
                f"{directory} could not be loaded as {cls.__name__}: its files are "
                f"damaged or do not fit each other ({error}). Save or copy the preset "
                "again."
            )
            raise ValueError(msg) from error

    @classmethod
    def _from_own_preset(cls, directory: Path, **kwargs: Any) -> Self:
        """Build an instance from a preset that one of our classes has saved."""
        return super().from_preset(str(directory), **kwargs)  # type: ignore[misc, no-any-return]

    @classmethod
    def _from_checkpoint(
        cls, checkpoint_format: CheckpointFormat, directory: Path, **kwargs: Any
    ) -> Self:
        """Build an instance from a foreign checkpoint; each kind knows how."""
        raise NotImplementedError

    def save_to_preset(self, preset_dir: str | os.PathLike[str], **kwargs: Any) -> None:
        """Save everything that `from_preset` needs.

        The directory is written under a temporary name and moved into place: if
        anything fails, nothing changes.

        Args:
            preset_dir: string or path. The directory.
            **kwargs: As in KerasHub, for instance `max_shard_size` in GB.

        Raises:
            NotADirectoryError: If `preset_dir` is a file.
        """
        with atomic_directory(preset_dir) as directory:
            super().save_to_preset(str(directory), **kwargs)  # type: ignore[misc]


def _check_config(directory: Path) -> None:
    path = directory / "config.json"
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        registered_name = config["registered_name"]
    except FileNotFoundError as error:
        msg = (
            f"{directory} holds no `config.json`, so it is not a preset. Pass the "
            "directory that `save_to_preset` wrote, or one with the files of a "
            "released checkpoint."
        )
        raise ValueError(msg) from error
    # A `JSONDecodeError` and a `UnicodeDecodeError` are a `ValueError`.
    except (KeyError, TypeError, ValueError, OSError, RecursionError) as error:
        msg = (
            f"{path} is not the config of an ALBERT preset ({error!r}). Save or copy "
            "the preset again."
        )
        raise ValueError(msg) from error
    if not str(registered_name).startswith("keras_albert>"):
        msg = (
            f"{path} describes a {registered_name!r}, which is not an ALBERT model. "
            "Pass a preset of keras_albert or a checkpoint of ALBERT."
        )
        raise ValueError(msg)


def _check_weight_files(directory: Path) -> None:
    """Find a truncated file, or one outside, before anything is built."""
    import h5py  # noqa: PLC0415  (comes with Keras; seldom needed at import)

    if (directory / INDEX_FILE).is_file():
        shard_names(directory / INDEX_FILE)
    for path in sorted(directory.glob("*.h5")):
        try:
            h5py.File(path).close()
        except OSError as error:
            msg = (
                f"{path} ({path.stat().st_size:,} bytes) is damaged or truncated "
                f"({error}). Copy or download it again."
            )
            raise ValueError(msg) from error
