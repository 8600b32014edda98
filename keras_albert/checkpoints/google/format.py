"""TensorFlow's checkpoints of ALBERT and BERT: google-research's, and others to read.

Checkpoints of TensorFlow Model Garden and TF-Hub have other names of the same weights.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import keras

from keras_albert.checkpoints.config import (
    backbone_arguments,
    backbone_config,
    check_groups,
    wrong_value,
)
from keras_albert.checkpoints.google.names import (
    ALBERT,
    ALBERT_ZH,
    BERT,
    MODULE_PREFIX,
    SECOND_FACTOR,
    TRAINING_STATE,
)
from keras_albert.checkpoints.google.tensorflow_files import (
    SAVED_MODEL,
    find_checkpoint,
    saved_model_config,
    saved_model_lowercases,
    stored_tensors,
    write_tensors,
)
from keras_albert.checkpoints.weight_map import (
    Array,
    Head,
    WeightMap,
    WeightMapCheckpoint,
    WeightMapFormat,
    backbone_of,
    check_head_epsilon,
    has_bert_dials,
)
from keras_albert.presets.checkpoint import CheckpointFormat, Files
from keras_albert.presets.weight_files import Shape, StoredTensor
from keras_albert.tasks.classification.early_exit import with_last_head
from keras_albert.tasks.cloning import merge_adapters
from keras_albert.text.tokenizer import word_piece
from keras_albert.text.tokenizer.vocabularies import open_vocabulary
from keras_albert.utils.reading import write_json

_LIBRARY = "google-research/albert"
_VOCABULARY_FILE = "30k-clean.model"

# The keys and the defaults of BERT's config, by ALBERT's keys.
_BERT_KEYS = {"embedding_size": "hidden_size", "num_hidden_groups": "num_hidden_layers"}
_BERT_DEFAULTS = {"hidden_act": "gelu"}

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


class GoogleCheckpoint(WeightMapCheckpoint):
    """A checkpoint of TensorFlow, opened."""

    format: "GoogleFormat"
    vocabulary_files = (_VOCABULARY_FILE, f"{_ASSETS}/{_VOCABULARY_FILE}")

    def backbone_arguments(self) -> dict[str, Any]:
        name, files = self.format.find_config(self.files), self.files
        found = files.json(name) if name else files.read(saved_model_config)
        config = found or {}
        path = self.directory / (name or SAVED_MODEL)
        if config.get("ln_type") not in (None, "postln"):
            expected = "'postln': here, layers end with their normalization"
            raise wrong_value(path, "ln_type", config["ln_type"], expected)
        defaults = _BERT_DEFAULTS if self.format.keys else {}
        arguments = backbone_arguments(
            config, str(path), _ACTIVATIONS, self.format.keys, defaults
        )
        sizes = arguments["num_layers"], arguments["num_groups"]
        check_groups(*sizes, _LIBRARY)
        arguments["use_embedding_projection"] = None
        return arguments

    def stored_shapes(self) -> list[Shape]:
        can_read = importlib.util.find_spec("tensorflow") is not None
        if not can_read or find_checkpoint(self.directory) is None:
            return []
        return [tensor.shape for tensor in self._tensors.values()]

    def task_name(self) -> str | None:
        # A head with one output counts as a regression; RACE's has the same weights.
        found = self._tensors
        for head in self.weight_map.heads:
            if head.mappings and all(each.name in found for each in head.mappings):
                return str(head.task)
        return None

    def task_arguments(self, task: type) -> dict[str, Any]:
        ours = [cls.__name__ for cls in task.__mro__]
        found = self._tensors
        if "AlbertClassifier" in ours and "output_weights" in found:
            return {"num_classes": _outputs(found)}
        if "AlbertQuestionAnswerer" in ours:
            is_conditional = any(name.startswith("answer_class/") for name in found)
            return {"head": "conditional" if is_conditional else "independent"}
        return {}

    def has_head(self, head: Head) -> bool:
        # The last layer must have as many outputs as the head.
        return head.task != "AlbertMultipleChoice" or _outputs(self._tensors) == 1

    def read_tensors(self, wanted: Callable[[str], bool]) -> dict[str, Array]:
        found = self._tensors.items()
        tensors = {name: tensor.read() for name, tensor in found if wanted(name)}
        if self.weight_map is ALBERT_ZH and SECOND_FACTOR in tensors:
            first = SECOND_FACTOR.removesuffix("_2")
            if first in tensors:
                tensors[first] = tensors[first] @ tensors.pop(SECOND_FACTOR)
        return tensors

    def read_vocabulary(self) -> bytes:
        found = super().read_vocabulary()
        stated = saved_model_lowercases(self.directory)
        if stated is None or not word_piece.is_word_piece(found):
            return found
        pieces, rules = word_piece.parse_word_piece(found)
        return word_piece.write_word_piece(pieces, replace(rules, lowercase=stated))

    def find_vocabulary(self) -> Path | None:
        """Return `30k-clean.model`, or the only `*.model`, or the only `vocab*.txt`."""
        found = super().find_vocabulary()
        for pattern in ("*.model", "vocab*.txt"):
            places = pattern, f"{_ASSETS}/{pattern}"
            there = [path for each in places for path in self.directory.glob(each)]
            if found is None and len(there) == 1:
                found = there[0]
        return found

    @cached_property
    def _tensors(self) -> dict[str, StoredTensor]:
        found = stored_tensors(_checkpoint(self.directory))
        return {
            name.removeprefix(MODULE_PREFIX): tensor
            for name, tensor in found.items()
            if name.rpartition("/")[2] not in TRAINING_STATE
        }


class GoogleFormat(WeightMapFormat):
    """`albert_config.json`, `model.ckpt-best.*` and `30k-clean.model`, or BERT's.

    Read and written with TensorFlow, which is imported on demand. The format does not
    store the names of classes.
    """

    opened = GoogleCheckpoint
    # There is no projection if embeddings are as wide as the encoder.
    always_projects = False

    def __init__(
        self,
        key: str,
        name: str,
        weight_map: WeightMap,
        config: str,
        checkpoint: str,
        bert: "GoogleFormat | None" = None,
    ) -> None:
        self.key, self.name, self.weight_map = key, name, weight_map
        # The variant for models with BERT's dials.
        self._bert = bert
        self._pattern, self._written = config, checkpoint
        self.keys: dict[str, str] = {}
        if weight_map is ALBERT_ZH:
            self.keys = {"embedding_size": "hidden_size"}
        elif weight_map.block is BERT.block:
            self.keys = _BERT_KEYS

    def recognizes(self, files: Files) -> bool:
        name = self.find_config(files)
        if name is None:
            found = files.read(saved_model_config) or {}
            maps = {"albert": ALBERT, "bert": BERT}
            return maps.get(str(found.get("model_type"))) is self.weight_map
        if self.weight_map is BERT:
            return True
        # Only the first generation of albert_zh has this key.
        return ("ln_type" in files.json(name)) == (self.weight_map is ALBERT_ZH)

    def for_model(self, model: Any) -> CheckpointFormat:
        is_bert = has_bert_dials(backbone_of(model))
        return self._bert if self._bert is not None and is_bert else self

    def write(
        self, model: keras.Model, directory: Path, vocabulary: bytes | None
    ) -> None:
        model = merge_adapters(with_last_head(model))
        backbone = backbone_of(model)
        if backbone.layer_norm_epsilon != _LAYER_NORM_EPSILON:
            raise ValueError(
                f"{self.name} computes LayerNorm with epsilon "
                f"{_LAYER_NORM_EPSILON}. Received a model with layer_norm_epsilon="
                f"{backbone.layer_norm_epsilon}. Save it as a preset of keras_albert "
                "instead."
            )
        check_head_epsilon(model, self.name)
        check_groups(backbone.num_layers, backbone.num_groups, _LIBRARY)
        tensors = self.dump(model)
        config = backbone_config(backbone, _ACTIVATIONS, self.keys)
        del config["layer_norm_eps"]
        if self.keys is _BERT_KEYS:
            del config["inner_group_num"]
        else:
            config |= _UNUSED
        write_tensors(directory / self._written, tensors)
        write_json(directory / self._pattern, config, sort_keys=True)
        if vocabulary is not None:
            found = open_vocabulary(vocabulary)
            is_words = word_piece.is_word_piece(vocabulary)
            name = found.file_name if is_words else _VOCABULARY_FILE
            (directory / name).write_bytes(found.contents())

    def find_config(self, files: Files) -> str | None:
        """Return the name of the config, or of the only one that ends otherwise."""
        places = ("", f"{_ASSETS}/")
        found = [f"{place}{self._pattern}" for place in places]
        found = [name for name in found if files.has(name)]
        if not found:
            pattern = self._pattern.replace(".json", "_*.json")
            paths = [files.directory.glob(f"{place}{pattern}") for place in places]
            found = [
                x.relative_to(files.directory).as_posix() for p in paths for x in p
            ]
        return found[0] if len(found) == 1 else None


def _checkpoint(directory: Path) -> Path:
    prefix = find_checkpoint(directory)
    if prefix is None:
        raise ValueError(
            f"{directory} contains the config of a TF1 checkpoint, but no "
            "`model.ckpt-best.index` or other `*.ckpt*.index`. Copy or download the "
            "checkpoint again."
        )
    return prefix


def _outputs(found: dict[str, StoredTensor]) -> int:
    """Return the number of outputs of the last layer, which is (out, in)."""
    return found["output_weights"].shape[0] if "output_weights" in found else 1


_FILES = ("albert_config.json", "albert_model.ckpt")
_BERT_FILES = ("bert_config.json", "bert_model.ckpt")
GOOGLE_BERT = GoogleFormat("google-bert", "google-research/bert", BERT, *_BERT_FILES)
GOOGLE = GoogleFormat(
    "google", _LIBRARY, ALBERT, "albert_config.json", "model.ckpt-best", GOOGLE_BERT
)
FIRST_ALBERT_ZH = GoogleFormat("albert-zh", "albert_zh", ALBERT_ZH, *_FILES)
