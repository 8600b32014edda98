"""TF1 checkpoints of google-research/albert."""

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import keras

from keras_albert.conversion.google import names
from keras_albert.conversion.google.tensorflow_files import (
    find_checkpoint,
    read_shapes,
    read_tensors,
    write_tensors,
)
from keras_albert.conversion.tables.config import (
    backbone_arguments,
    backbone_config,
    check_groups,
)
from keras_albert.conversion.tables.heads import Head, backbone_of, check_head_epsilon
from keras_albert.conversion.tables.tabled_format import TabledFormat
from keras_albert.conversion.tables.weight_table import Array
from keras_albert.utils.reading import read_json

_CONFIG_FILE = "albert_config.json"
_VOCABULARY_FILE = "30k-clean.model"
_CHECKPOINT = "model.ckpt-best"

# The folder of a TF-Hub module for files other than the checkpoint.
_ASSETS = "assets"

# In google-research/albert, "gelu" is the tanh form.
_ACTIVATIONS = {"gelu": "gelu_approximate", "relu": "relu", "tanh": "tanh"}
_LAYER_NORM_EPSILON = 1e-12

# Keys of the config that have no effect here.
_UNUSED = {
    "net_structure_type": 0,
    "gap_size": 0,
    "num_memory_blocks": 0,
    "down_scale_factor": 1,
}


class GoogleFormat(TabledFormat):
    """`albert_config.json`, `model.ckpt-best.*` and `30k-clean.model`.

    Read and written with TensorFlow, which is imported on demand. The format does not
    store the names of classes.
    """

    name = "google-research/albert"
    key = "google"
    table: ClassVar[Any] = names
    vocabulary_files = (_VOCABULARY_FILE, f"{_ASSETS}/{_VOCABULARY_FILE}")
    # There is no projection if embeddings are as wide as the encoder.
    always_projects = False

    def recognizes(self, directory: Path) -> bool:
        """Return whether a directory has a checkpoint of google-research/albert."""
        return _find(directory, _CONFIG_FILE) is not None

    def backbone_arguments(self, directory: Path) -> dict[str, Any]:
        """Return the constructor arguments of the checkpoint's backbone."""
        path = _find(directory, _CONFIG_FILE) or directory / _CONFIG_FILE
        arguments = backbone_arguments(read_json(path), str(path), _ACTIVATIONS)
        _check_groups(arguments["num_layers"], arguments["num_groups"])
        arguments["use_embedding_projection"] = None
        return arguments

    def stored_shapes(self, directory: Path) -> list[tuple[int, ...]]:
        """Return the shapes of the weights in the checkpoint's files."""
        can_read = importlib.util.find_spec("tensorflow") is not None
        if not can_read or find_checkpoint(directory) is None:
            return []
        return list(self._shapes(directory).values())

    def task_name(self, directory: Path) -> str | None:
        """Return the name of the task class for the checkpoint's head, or `None`.

        A head with one output counts as a regression; RACE's has the same weights.
        """
        found = self._shapes(directory)
        for head in self.table.HEADS:
            if head.rows and all(row.name in found for row in head.rows):
                return str(head.task)
        return None

    def task_arguments(self, directory: Path, task: type) -> dict[str, Any]:
        """Return the arguments of a task class that the checkpoint defines."""
        ours = [cls.__name__ for cls in task.__mro__]
        found = self._shapes(directory)
        if "AlbertClassifier" in ours and "output_weights" in found:
            return {"num_classes": _outputs(found)}
        if "AlbertQuestionAnswerer" in ours:
            is_conditional = any(name.startswith("answer_class/") for name in found)
            return {"head": "conditional" if is_conditional else "independent"}
        return {}

    def has_head(self, directory: Path, head: Head) -> bool:
        """Return whether a checkpoint's last layer has as many outputs as a head."""
        found = self._shapes(directory)
        return head.task != "AlbertMultipleChoice" or _outputs(found) == 1

    def read_tensors(
        self, directory: Path, wanted: Callable[[str], bool]
    ) -> dict[str, Array]:
        """Return the wanted tensors, by the names of the rows."""
        tensors = read_tensors(
            _checkpoint(directory),
            lambda name: _is_weight(name) and wanted(_bare(name)),
        )
        return {_bare(name): tensor for name, tensor in tensors.items()}

    def find_vocabulary(self, directory: Path) -> Path | None:
        """Return `30k-clean.model`, or the only `*.model`."""
        models = [*directory.glob("*.model"), *directory.glob(f"{_ASSETS}/*.model")]
        found = super().find_vocabulary(directory)
        return models[0] if found is None and len(models) == 1 else found

    def write(
        self, model: keras.Model, directory: Path, vocabulary: bytes | None
    ) -> None:
        """Write an `init_checkpoint` for google-research/albert's scripts."""
        backbone = backbone_of(model)
        if backbone.layer_norm_epsilon != _LAYER_NORM_EPSILON:
            msg = (
                f"google-research/albert computes LayerNorm with epsilon "
                f"{_LAYER_NORM_EPSILON}. Received a model with layer_norm_epsilon="
                f"{backbone.layer_norm_epsilon}. Save it as a preset of keras_albert "
                "instead."
            )
            raise ValueError(msg)
        check_head_epsilon(model, "google-research/albert")
        _check_groups(backbone.num_layers, backbone.num_groups)
        tensors = self.dump(model)
        config = backbone_config(backbone, _ACTIVATIONS) | _UNUSED
        del config["layer_norm_eps"]
        text = json.dumps(config, indent=2, sort_keys=True)
        write_tensors(directory / _CHECKPOINT, tensors)
        (directory / _CONFIG_FILE).write_text(f"{text}\n", encoding="utf-8")
        if vocabulary is not None:
            (directory / _VOCABULARY_FILE).write_bytes(vocabulary)

    def _shapes(self, directory: Path) -> dict[str, tuple[int, ...]]:
        shapes = read_shapes(_checkpoint(directory))
        return {_bare(name): shapes[name] for name in shapes if _is_weight(name)}


def _find(directory: Path, name: str) -> Path | None:
    places = (directory / name, directory / _ASSETS / name)
    return next((path for path in places if path.is_file()), None)


def _checkpoint(directory: Path) -> Path:
    prefix = find_checkpoint(directory)
    if prefix is None:
        msg = (
            f"{directory} contains `{_CONFIG_FILE}`, but no `{_CHECKPOINT}.index` or "
            "other `model.ckpt-*.index`. Copy or download the checkpoint again."
        )
        raise ValueError(msg)
    return prefix


def _is_weight(name: str) -> bool:
    return name.rpartition("/")[2] not in names.TRAINING_STATE


def _bare(name: str) -> str:
    return name.removeprefix(names.MODULE_PREFIX)


def _outputs(found: dict[str, tuple[int, ...]]) -> int:
    """Return the number of outputs of the last layer, which is (out, in)."""
    return next(iter(found.get("output_weights", ())), 1)


def _check_groups(num_layers: int, num_groups: int) -> None:
    check_groups(
        num_layers,
        num_groups,
        lambda layer: int(layer / num_layers * num_groups),
        "google-research/albert",
    )


GOOGLE = GoogleFormat()
