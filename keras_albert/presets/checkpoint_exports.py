"""Writing a model to files, and in the formats of other libraries."""

import os
from collections.abc import Callable, Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from keras_albert.presets.checkpoint import CheckpointFormat, get_format
from keras_albert.utils.atomic_files import atomic_directory
from keras_albert.utils.keras_internals import IN_USE, all_layers, has_no_value

# The files that any of the formats reads.
_CHECKPOINT_FILES = (
    *("config.json", "task.json", "preprocessor.json", "metadata.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"),
    *("added_tokens.json", "albert_config.json", "bert_config.json", "checkpoint"),
    *("modules.json", "*sentence_*.json", "[0-9]_*/config.json", "vocab.txt"),
    *("*.model", "*.spm", "assets/tokenizer/*"),
    *("*.weights.h5", "*.weights.json", "model*.safetensors*", "pytorch_model*"),
    *("base.json", "difference.safetensors"),
    "tf_model.h5",
    *("*.ckpt*", "*.data-?????-of-?????", "saved_model.pb", "fingerprint.pb"),
    *("variables/variables.*", "assets/*.model", "assets/vocab*.txt"),
)

_GOOGLE_LAYOUTS = ("google", "model-garden", "tf-hub")


class CheckpointExports:
    """Methods that export to foreign formats, atomically and over earlier exports.

    A task exports its vocabulary; a backbone has none, and takes a `tokenizer`.
    """

    def export_to_transformers(
        self,
        directory: str | os.PathLike[str],
        tokenizer: Any = None,
        model_type: str | None = None,
    ) -> Path:
        """Write a checkpoint that transformers loads with `from_pretrained`.

        `config.json`, `model.safetensors`, and the files of the vocabulary.

        Args:
            directory: string or path. The directory to write.
            tokenizer: An `AlbertTokenizer`. Defaults to `None`: the model's.
            model_type: string or `None`. "albert", "bert", "electra" or "distilbert".
                Defaults to `None`: the type of the files it was loaded from if the
                model still fits it, or the type that its sizes fit.

        Returns:
            The directory.

        Raises:
            ValueError: If transformers has no equivalent class, or weights are
                quantized or not finite.
            NotADirectoryError: If `directory` is a file.
            FileExistsError: If it contains files of another checkpoint.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> path = sentiment.export_to_transformers("sentiment")
            >>> (path / "model.safetensors").exists()
            True
        """
        other = "" if model_type in (None, "albert") else f"-{model_type}"
        chosen = get_format(f"transformers{other}")
        if model_type is None:
            chosen = chosen.for_model(self)
        return self._export_checkpoint(chosen, directory, tokenizer)

    def export_to_sentence_transformers(
        self, directory: str | os.PathLike[str], tokenizer: Any = None
    ) -> Path:
        """Write a folder for `SentenceTransformer(directory)`; text embedders only.

        Args:
            directory: string or path. The directory to write.
            tokenizer: An `AlbertTokenizer`. Defaults to `None`: the model's.

        Returns:
            The directory.

        Raises:
            ValueError: If the model is not a text embedder, has weights for its pooling
                (`inverse_frequency`), or its weights are quantized or not finite.
            NotADirectoryError: If `directory` is a file.
            FileExistsError: If it contains files of another checkpoint.

        Example:
            >>> from keras_albert import AlbertTextEmbedder
            >>> embedder = AlbertTextEmbedder.from_preset("albert_small_en_uncased")
            >>> path = embedder.export_to_sentence_transformers("mine")
            >>> (path / "modules.json").exists()
            True
        """
        chosen = get_format("sentence-transformers")
        return self._export_checkpoint(chosen, directory, tokenizer)

    def export_to_keras_hub(
        self, directory: str | os.PathLike[str], tokenizer: Any = None
    ) -> Path:
        """Write a preset that KerasHub loads without this package.

        Args:
            directory: string or path. The directory to write.
            tokenizer: An `AlbertTokenizer`. Defaults to `None`: the model's.

        Returns:
            The directory.

        Raises:
            ValueError: If KerasHub has no equivalent class, or weights are quantized
                or not finite.
            NotADirectoryError: If `directory` is a file.
            FileExistsError: If it contains files of another checkpoint.

        Example:
            >>> from keras_albert import AlbertBackbone
            >>> backbone = AlbertBackbone(
            ...     vocabulary_size=40, num_layers=1, num_heads=2, embedding_dim=4,
            ...     hidden_dim=8, intermediate_dim=16)
            >>> path = backbone.export_to_keras_hub("mine")
            >>> sorted(file.name for file in path.iterdir())
            ['config.json', 'metadata.json', 'model.weights.h5']
        """
        chosen = get_format("keras-hub").for_model(self)
        return self._export_checkpoint(chosen, directory, tokenizer)

    def export_to_google(
        self,
        directory: str | os.PathLike[str],
        tokenizer: Any = None,
        layout: str = "google",
    ) -> Path:
        """Write a checkpoint of TensorFlow, in the layout of Google's ALBERT or BERT.

        A model with BERT's sizes becomes a BERT. Needs TensorFlow, on any backend.

        Args:
            directory: string or path. The directory to write.
            tokenizer: An `AlbertTokenizer`. Defaults to `None`: the model's.
            layout: string. `"google"`, a TF1 checkpoint of google-research;
                `"model-garden"`, a `tf.train.Checkpoint` of an encoder, or of a masked
                LM, of TensorFlow Model Garden; or `"tf-hub"`, a SavedModel with such an
                encoder and its vocabulary in `assets`, for `hub.load`. Defaults to
                `"google"`.

        Returns:
            The directory.

        Raises:
            ImportError: If TensorFlow is not installed.
            ValueError: If the layout lacks the model's head or activation, or weights
                are quantized or not finite.
            NotADirectoryError: If `directory` is a file.
            FileExistsError: If it contains files of another checkpoint.

        Example:
            >>> from keras_albert import AlbertBackbone
            >>> backbone = AlbertBackbone(
            ...     vocabulary_size=40, num_layers=1, num_heads=2, embedding_dim=4,
            ...     hidden_dim=8, intermediate_dim=16)
            >>> path = backbone.export_to_google("mine")
            >>> sorted(file.name for file in path.iterdir())
            ['albert_config.json', 'checkpoint',
             'model.ckpt-best.data-00000-of-00001',
             'model.ckpt-best.index']
        """
        if layout not in _GOOGLE_LAYOUTS:
            known = ", ".join(_GOOGLE_LAYOUTS)
            msg = f"`layout` is one of {known}. Received: layout={layout!r}"
            raise ValueError(msg)
        chosen = get_format(layout).for_model(self)
        return self._export_checkpoint(chosen, directory, tokenizer)

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
        _refuse_rounding(self)
        super().save(*args, **kwargs)  # type: ignore[misc]

    def save_weights(self, *args: Any, **kwargs: Any) -> None:
        """Save the weights; see `keras.Model.save_weights`.

        Example:
            >>> from keras_albert import AlbertBackbone
            >>> backbone = AlbertBackbone.from_preset("albert_tiny_en_uncased")
            >>> backbone.save_weights("tiny.weights.h5")
            >>> backbone.load_weights("tiny.weights.h5")
        """
        _refuse_rounding(self)
        super().save_weights(*args, **kwargs)  # type: ignore[misc]

    def save_own_variables(self, store: Any) -> None:
        """Save no weights, as layers do; Keras calls this for any file."""
        # The file of a task's head has no matrices of the backbone.
        if not hasattr(self, "backbone"):
            _refuse_rounding(self)
        super().save_own_variables(store)  # type: ignore[misc]

    def _export_checkpoint(
        self,
        chosen: CheckpointFormat,
        directory: str | os.PathLike[str],
        tokenizer: Any,
    ) -> Path:
        if tokenizer is None:
            tokenizer = getattr(getattr(self, "preprocessor", None), "tokenizer", None)
        vocabulary = getattr(tokenizer, "proto", None)
        check_readable(self.variables)  # type: ignore[attr-defined]
        with atomic_directory(directory, refuse_mixing) as temporary:
            chosen.write(self, temporary, vocabulary)
        return Path(directory)


def check_readable(variables: Iterable[Any]) -> None:
    """Raise if values are in use, or if other processes have parts of them (JAX)."""
    for variable in variables:
        if has_no_value(variable):
            raise RuntimeError(IN_USE)
        if getattr(variable.value, "is_fully_addressable", True):
            continue
        try:
            variable.numpy()
        except RuntimeError as error:
            raise ValueError(
                f"Other processes have parts of {variable.path}, which this one cannot "
                "save. Choose a `DeviceMesh` whose batch axis has at least one entry "
                "for each process, such as (2, 2) for 2 processes of 2 devices."
            ) from error


def is_checkpoint_file(name: str) -> bool:
    """Return whether one of the formats may read a file, by its name in a directory."""
    return any(
        name.count("/") == pattern.count("/") and fnmatch(name, pattern)
        for pattern in _CHECKPOINT_FILES
    )


def _refuse_rounding(model: Any) -> None:
    """Raise if a file would change the outputs of a model."""
    for layer in all_layers(model):
        mode = layer.quantization_mode
        if getattr(layer, "lora_enabled", False) and mode in ("int8", "int4"):
            raise ValueError(
                "A file contains LoRA's update inside the matrices, and "
                f"{mode} would round it. Save it separately, with "
                "`backbone.save_lora_weights('NAME.lora.h5')` and the head with "
                "`save_task_weights('NAME.weights.h5')`; load both into a model of the "
                "same preset after `quantize` and `enable_lora`."
            )


def refuse_mixing(written: Path, target: Path) -> Callable[[str], bool]:
    """Raise if other files in the target would be read along with the new ones."""
    there = {
        path.relative_to(target).as_posix()
        for pattern in _CHECKPOINT_FILES
        for path in target.glob(pattern)
    }
    others = sorted(name for name in there if not (written / name).is_file())
    if others:
        raise FileExistsError(
            f"{target} has files of another checkpoint, which would be mixed with this "
            f"one: {', '.join(others[:9])}. Choose another directory, or move these "
            "files."
        )
    return lambda name: False
