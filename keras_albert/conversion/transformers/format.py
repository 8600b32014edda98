"""Hugging Face transformers' ALBERT checkpoints."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import keras
import numpy as np

from keras_albert.conversion.tables.config import (
    backbone_arguments,
    backbone_config,
    check_groups,
    label_config,
    read_labels,
    read_rate,
)
from keras_albert.conversion.tables.heads import Head, backbone_of, check_head_epsilon
from keras_albert.conversion.tables.tabled_format import TabledFormat
from keras_albert.conversion.tables.weight_table import Array
from keras_albert.conversion.transformers import names
from keras_albert.conversion.transformers.safetensors_files import (
    safetensors_of,
    write_safetensors,
)
from keras_albert.conversion.transformers.tokenizer_json import (
    vocabulary_from_tokenizer_json,
    write_tokenizer_files,
)
from keras_albert.conversion.transformers.torch_files import (
    holds_torch_files,
    torch_tensors,
)
from keras_albert.conversion.weight_files import StoredTensor
from keras_albert.utils.reading import read_json, read_optional_json

_CONFIG_FILE = "config.json"
_VOCABULARY_FILE = "spiece.model"
_TOKENIZER_FILE = "tokenizer.json"

# The name shared by heads of several classes, which the config tells apart.
_AMBIGUOUS_PREFIX = "classifier."

# The classes whose labels, activation and dropout are in transformers' config.
_LABELLED = ("AlbertClassifier", "AlbertTokenClassifier")
_SETS = "multi_label_classification"
_WITH_DROPOUT = (*_LABELLED, "AlbertMultipleChoice")


class TransformersFormat(TabledFormat):
    """`config.json` and `model.safetensors`, as `save_pretrained` writes them."""

    name = "Hugging Face transformers"
    key = "transformers"
    table: ClassVar[Any] = names
    vocabulary_files = (_VOCABULARY_FILE, _TOKENIZER_FILE)

    def recognizes(self, directory: Path) -> bool:
        """Return whether a directory has an ALBERT of transformers."""
        config = read_optional_json(directory / _CONFIG_FILE)
        return config.get("model_type") == "albert"

    def backbone_arguments(self, directory: Path) -> dict[str, Any]:
        """Return the constructor arguments of the checkpoint's backbone."""
        path = directory / _CONFIG_FILE
        arguments = backbone_arguments(self._config(directory), source=str(path))
        _check_groups(arguments["num_layers"], arguments["num_groups"])
        return arguments

    def stored_shapes(self, directory: Path) -> list[tuple[int, ...]]:
        """Return the shapes of the weights in the checkpoint's files."""
        return [tensor.shape for tensor in self._tensors(directory).values()]

    def task_name(self, directory: Path) -> str | None:
        """Return the name of the task class for the checkpoint's head, or `None`."""
        found = set(self._classes(directory)) - {"AlbertModel"}
        tasks = (head.task for head in self.table.HEADS if head.foreign in found)
        return next(tasks, None)

    def task_arguments(self, directory: Path, task: type) -> dict[str, Any]:
        """Return the arguments of a task class that the checkpoint defines."""
        config, source = self._config(directory), str(directory / _CONFIG_FILE)
        ours = [cls.__name__ for cls in task.__mro__]
        arguments: dict[str, Any] = {}
        if set(_WITH_DROPOUT) & set(ours):
            key, default = "classifier_dropout_prob", 0.1
            if config.get(key, default) is None:
                # In transformers, `None` means the rate of the encoder.
                key, default = "hidden_dropout_prob", 0.0
            arguments["dropout"] = read_rate(config, key, default, source)
        head = next((head for head in self.table.HEADS if head.task in ours), None)
        if head and set(_LABELLED) & set(ours) and self.has_head(directory, head):
            count, labels = read_labels(config, source)
            self._check_outputs(directory, head, count)
            arguments |= {"num_classes": count, "labels": labels}
            if "AlbertClassifier" in ours and config.get("problem_type") == _SETS:
                arguments["activation"] = "sigmoid"
        return arguments

    def has_head(self, directory: Path, head: Head) -> bool:
        """Return whether a checkpoint's `classifier` is of a head's kind."""
        found = self._classes(directory)
        named_alike = any(row.name.startswith(_AMBIGUOUS_PREFIX) for row in head.rows)
        return not (named_alike and found) or head.foreign in found

    def read_tensors(
        self, directory: Path, wanted: Callable[[str], bool]
    ) -> dict[str, Array]:
        """Return the wanted tensors, by the names of the rows."""
        found = self._tensors(directory)
        if not found:
            # There are no files; this raises an error that names the expected ones.
            found = safetensors_of(directory)
        tensors = {name: found[name].read() for name in found if wanted(name)}
        return _untied(tensors, directory)

    def _tensors(self, directory: Path) -> dict[str, StoredTensor]:
        """Return the stored tensors, by the names of the rows."""
        found: dict[str, StoredTensor] = {}
        if any(directory.glob("*.safetensors*")):
            found = safetensors_of(directory)
        elif holds_torch_files(directory):
            found = torch_tensors(directory)
        tensors: dict[str, StoredTensor] = {}
        for name, tensor in found.items():
            full = _full(name)
            if full in tensors:
                bare = full.removeprefix(names.PREFIX)
                msg = (
                    f"The weights in {directory} contain both `{full}` and `{bare}`, "
                    "which are the same tensor. Copy or download the checkpoint "
                    "again, or save the model with `save_pretrained` once more."
                )
                raise ValueError(msg)
            tensors[full] = tensor
        for name in names.BUFFERS:
            tensors.pop(name, None)
        return tensors

    def _check_outputs(self, directory: Path, head: Head, count: int) -> None:
        """Check the number of classes in a config before a head is built."""
        stored = self._tensors(directory)
        for row in head.rows:
            shape = stored[row.name].shape if row.name in stored else (count,)
            if shape[:1] != (count,):
                msg = (
                    f"{directory / _CONFIG_FILE} has {count:,} classes, but {row.name} "
                    f"has the shape {shape} instead of {(count, *shape[1:])}. Use a "
                    "checkpoint whose files belong together."
                )
                raise ValueError(msg)

    def read_vocabulary(self, directory: Path) -> bytes:
        """Return the SentencePiece model, converted from `tokenizer.json` if needed."""
        path = self.find_vocabulary(directory)
        if path is not None and path.name == _TOKENIZER_FILE:
            return vocabulary_from_tokenizer_json(path)
        return super().read_vocabulary(directory)

    def write(
        self, model: keras.Model, directory: Path, vocabulary: bytes | None
    ) -> None:
        """Write files for `from_pretrained` of the corresponding class."""
        tensors, config = self.dump(model), self.config(model)
        if "AlbertModel" in config["architectures"]:
            tensors = {
                name.removeprefix(names.PREFIX): value
                for name, value in tensors.items()
            }
        text = json.dumps(config, indent=2, sort_keys=True)
        (directory / _CONFIG_FILE).write_text(f"{text}\n", encoding="utf-8")
        write_safetensors(directory, tensors)
        if vocabulary is not None:
            (directory / _VOCABULARY_FILE).write_bytes(vocabulary)
            length = backbone_of(model).max_sequence_length
            write_tokenizer_files(directory, vocabulary, length)

    def config(self, model: keras.Model) -> dict[str, Any]:
        """Translate a model's arguments to transformers' config.

        Raises:
            ValueError: If transformers cannot compute the same as the model.
        """
        backbone, head = backbone_of(model), self.head_for(model)
        check_head_epsilon(model, "transformers")
        _check_groups(backbone.num_layers, backbone.num_groups)
        config = backbone_config(backbone) | {
            "architectures": [head.foreign],
            "model_type": "albert",
            "dtype": "float32",
            "tie_word_embeddings": True,
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 3,
        }
        if head.task in _WITH_DROPOUT:
            config["classifier_dropout_prob"] = model.dropout
        if head.task in _LABELLED:
            config |= label_config(model.num_classes, model.labels)
        if head.task == "AlbertClassifier":
            _check_activation(model)
            kind = _SETS if model.is_multi_label else "single_label_classification"
            config["problem_type"] = "regression" if model.is_regression else kind
        return config

    def _config(self, directory: Path) -> dict[str, Any]:
        config: dict[str, Any] = read_json(directory / _CONFIG_FILE)
        return config

    def _classes(self, directory: Path) -> list[str]:
        found = self._config(directory).get("architectures")
        return [str(name) for name in found] if isinstance(found, list) else []


def _check_groups(num_layers: int, num_groups: int) -> None:
    per_group = num_layers / num_groups
    check_groups(
        num_layers, num_groups, lambda layer: int(layer / per_group), "transformers"
    )


def _check_activation(model: Any) -> None:
    plain = model.activation in (keras.activations.linear, keras.activations.softmax)
    if not plain and not model.is_multi_label:
        msg = (
            "transformers' classifier returns logits, to which softmax or, for "
            "several labels, sigmoid can be applied. Received a classifier with "
            f"activation={model.activation!r}. Save it as a preset of keras_albert "
            "instead."
        )
        raise ValueError(msg)


def _full(name: str) -> str:
    """Return the name of a tensor in a model with a head."""
    begins = (names.PREFIX, *names.HEAD_PREFIXES)
    bare = name.startswith(("embeddings.", "encoder.", "pooler."))
    return names.PREFIX + name if bare and not name.startswith(begins) else name


def _untied(tensors: dict[str, Array], directory: Path) -> dict[str, Array]:
    """Remove second copies of tied tensors, which must be equal to the first."""
    for copy, original in names.TIED.items():
        if copy not in tensors:
            continue
        tensor = tensors.pop(copy)
        if not np.array_equal(tensors.setdefault(original, tensor), tensor):
            msg = (
                f"In {directory} `{copy}` differs from `{original}`, but ALBERT's "
                "masked LM shares them. The checkpoint is of a different model, which "
                "this package cannot load."
            )
            raise ValueError(msg)
    return tensors


TRANSFORMERS = TransformersFormat()
