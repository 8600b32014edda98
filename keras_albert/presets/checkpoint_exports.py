"""Writing a model in the formats of other libraries."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_albert.presets.atomic_directory import atomic_directory
from keras_albert.presets.checkpoint_formats import get_format

# What any of the formats would read.
_CHECKPOINT_FILES = (
    *("config.json", "task.json", "preprocessor.json", "metadata.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "albert_config.json", "checkpoint"),
    *("*.model", "*.spm", "assets/tokenizer/*"),
    *("*.weights.h5", "*.weights.json", "model*.safetensors*", "pytorch_model*"),
    *("*.ckpt*", "*.data-?????-of-?????"),
)


class CheckpointExports:
    """What a backbone and a task share: `export_to_...` for each foreign format.

    Each writes a directory whole or not at all. Over an earlier export of the same
    kind it replaces that one; files that are of no checkpoint stay. A task hands on
    its own vocabulary; a backbone has none, and takes a `tokenizer`.
    """

    def export_to_transformers(
        self, directory: str | os.PathLike[str], tokenizer: Any = None
    ) -> Path:
        """Write what `transformers.Albert*.from_pretrained(directory)` loads.

        `config.json`, `model.safetensors`, and of the vocabulary `spiece.model`,
        `tokenizer.json` and `tokenizer_config.json`.

        Args:
            directory: string or path. What to write.
            tokenizer: An `AlbertTokenizer`. Defaults to `None`: that of the model.

        Returns:
            The directory.

        Raises:
            ValueError: If transformers has no class that computes what the model
                does, or weights are quantized or not finite.
            NotADirectoryError: If `directory` is a file.
            FileExistsError: If it has files of another checkpoint.
        """
        return self._export_checkpoint("transformers", directory, tokenizer)

    def export_to_keras_hub(
        self, directory: str | os.PathLike[str], tokenizer: Any = None
    ) -> Path:
        """Write a preset that KerasHub loads without this package.

        Args:
            directory: string or path. What to write.
            tokenizer: An `AlbertTokenizer`. Defaults to `None`: that of the model.

        Returns:
            The directory.

        Raises:
            ValueError: If KerasHub has no class that computes what the model does,
                or weights are quantized or not finite.
            NotADirectoryError: If `directory` is a file.
            FileExistsError: If it has files of another checkpoint.
        """
        return self._export_checkpoint("keras-hub", directory, tokenizer)

    def export_to_google(
        self, directory: str | os.PathLike[str], tokenizer: Any = None
    ) -> Path:
        """Write a TF1 checkpoint as google-research/albert has them.

        `albert_config.json`, `model.ckpt-best.*` and `30k-clean.model`. Needs
        TensorFlow; the backend may be any.

        Args:
            directory: string or path. What to write.
            tokenizer: An `AlbertTokenizer`. Defaults to `None`: that of the model.

        Returns:
            The directory.

        Raises:
            ImportError: If TensorFlow is not installed.
            ValueError: If that code has no head or no activation like the model's,
                or weights are quantized or not finite.
            NotADirectoryError: If `directory` is a file.
            FileExistsError: If it has files of another checkpoint.
        """
        return self._export_checkpoint("google", directory, tokenizer)

    def _export_checkpoint(
        self, key: str, directory: str | os.PathLike[str], tokenizer: Any
    ) -> Path:
        if tokenizer is None:
            preprocessor = getattr(self, "preprocessor", None)
            tokenizer = getattr(preprocessor, "tokenizer", None)
        vocabulary = getattr(tokenizer, "proto", None)
        with atomic_directory(directory, _plan) as temporary:
            get_format(key).write(self, temporary, vocabulary)
        return Path(directory)


def _plan(written: Path, target: Path) -> Callable[[str], bool]:
    """Find what would be read together with what is written."""
    there = {
        path.relative_to(target).as_posix()
        for pattern in _CHECKPOINT_FILES
        for path in target.glob(pattern)
    }
    beside = sorted(name for name in there if not (written / name).is_file())
    if beside:
        msg = (
            f"{target} has files of another checkpoint, which would be mixed with "
            f"this one: {', '.join(beside[:9])}. Name another directory, or move them "
            "away."
        )
        raise FileExistsError(msg)
    return lambda name: False
