"""TensorFlow's checkpoints of ALBERT and BERT: google-research's, and others with them.

Those of TensorFlow Model Garden and TF-Hub have other names of the same weights.
"""

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras

from keras_albert.backbone import AlbertBackbone
from keras_albert.conversion.config import (
    backbone_arguments,
    backbone_config,
    check_groups,
    wrong_value,
)
from keras_albert.conversion.google.names import (
    ALBERT,
    ALBERT_ZH,
    BERT,
    MODULE_PREFIX,
    SECOND_FACTOR,
    TRAINING_STATE,
)
from keras_albert.conversion.google.tensorflow_files import (
    SAVED_MODEL,
    find_checkpoint,
    find_tensors,
    read_tensors,
    saved_model_config,
    saved_model_lowercases,
    write_tensors,
)
from keras_albert.conversion.weight_map import (
    Array,
    Head,
    WeightMap,
    backbone_of,
    check_head_epsilon,
    has_bert_dials,
)
from keras_albert.conversion.weight_map_format import WeightMapFormat
from keras_albert.presets.checkpoint_formats import CheckpointFormat
from keras_albert.tasks.base.other_backbone import merge_adapters
from keras_albert.text.tokenizer.vocabularies import open_vocabulary
from keras_albert.text.tokenizer.word_piece import (
    is_word_piece,
    parse_word_piece,
    write_word_piece,
)
from keras_albert.utils.reading import read_json

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


class GoogleFormat(WeightMapFormat):
    """`albert_config.json`, `model.ckpt-best.*` and `30k-clean.model`, or BERT's.

    Read and written with TensorFlow, which is imported on demand. The format does not
    store the names of classes.
    """

    vocabulary_files = (_VOCABULARY_FILE, f"{_ASSETS}/{_VOCABULARY_FILE}")
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
        self._keys: dict[str, str] = {}
        if weight_map is ALBERT_ZH:
            self._keys = {"embedding_size": "hidden_size"}
        elif weight_map.block is BERT.block:
            self._keys = _BERT_KEYS

    def recognizes(self, directory: Path) -> bool:
        """Return whether a directory has a checkpoint with these names."""
        path = self._find_config(directory)
        if path is None:
            found = saved_model_config(directory) or {}
            maps = {"albert": ALBERT, "bert": BERT}
            return maps.get(str(found.get("model_type"))) is self.weight_map
        if self.weight_map is BERT:
            return True
        # Only the first generation of albert_zh has this key.
        return ("ln_type" in read_json(path)) == (self.weight_map is ALBERT_ZH)

    def for_model(self, model: Any) -> CheckpointFormat:
        """Return BERT's format for a model with BERT's dials; see `TRANSFORMERS`."""
        is_bert = has_bert_dials(backbone_of(model))
        return self._bert if self._bert is not None and is_bert else self

    def backbone_arguments(self, directory: Path) -> dict[str, Any]:
        """Return the constructor arguments of the checkpoint's backbone."""
        path = self._find_config(directory)
        config = read_json(path) if path else saved_model_config(directory) or {}
        path = path or directory / SAVED_MODEL
        if config.get("ln_type") not in (None, "postln"):
            expected = "'postln': here, layers end with their normalization"
            raise wrong_value(path, "ln_type", config["ln_type"], expected)
        defaults = _BERT_DEFAULTS if self._keys else {}
        arguments = backbone_arguments(
            config, str(path), _ACTIVATIONS, self._keys, defaults
        )
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
        for head in self.weight_map.heads:
            if head.mappings and all(each.name in found for each in head.mappings):
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
        """Return the wanted tensors, by the names of the mappings."""
        found = read_tensors(
            _checkpoint(directory),
            lambda name: _is_weight(name) and wanted(_bare(name)),
        )
        tensors = {_bare(name): tensor for name, tensor in found.items()}
        if self.weight_map is ALBERT_ZH and SECOND_FACTOR in tensors:
            first = SECOND_FACTOR.removesuffix("_2")
            if first in tensors:
                tensors[first] = tensors[first] @ tensors.pop(SECOND_FACTOR)
        return tensors

    def read_vocabulary(self, directory: Path) -> bytes:
        """Return the vocabulary of a checkpoint, as `AlbertTokenizer` takes it."""
        found = super().read_vocabulary(directory)
        stated = saved_model_lowercases(directory)
        if stated is None or not is_word_piece(found):
            return found
        pieces, rules = parse_word_piece(found)
        return write_word_piece(pieces, replace(rules, lowercase=stated))

    def find_vocabulary(self, directory: Path) -> Path | None:
        """Return `30k-clean.model`, or the only `*.model`, or the only `vocab*.txt`."""
        found = super().find_vocabulary(directory)
        for pattern in ("*.model", "vocab*.txt"):
            there = [*directory.glob(pattern), *directory.glob(f"{_ASSETS}/{pattern}")]
            if found is None and len(there) == 1:
                found = there[0]
        return found

    def write(
        self, model: keras.Model, directory: Path, vocabulary: bytes | None
    ) -> None:
        """Write an `init_checkpoint` for the scripts of google-research."""
        model = merge_adapters(model)
        backbone = backbone_of(model)
        if backbone.layer_norm_epsilon != _LAYER_NORM_EPSILON:
            msg = (
                f"{self.name} computes LayerNorm with epsilon "
                f"{_LAYER_NORM_EPSILON}. Received a model with layer_norm_epsilon="
                f"{backbone.layer_norm_epsilon}. Save it as a preset of keras_albert "
                "instead."
            )
            raise ValueError(msg)
        check_head_epsilon(model, self.name)
        self.check_layers(backbone)
        tensors = self.dump(model)
        config = backbone_config(backbone, _ACTIVATIONS, self._keys)
        del config["layer_norm_eps"]
        if self._keys is _BERT_KEYS:
            del config["inner_group_num"]
        else:
            config |= _UNUSED
        text = json.dumps(config, indent=2, sort_keys=True)
        self.write_tensors(directory / self._written, tensors, backbone.num_heads)
        (directory / self._pattern).write_text(f"{text}\n", encoding="utf-8")
        if vocabulary is not None:
            found = open_vocabulary(vocabulary)
            is_words = is_word_piece(vocabulary)
            name = found.file_name if is_words else _VOCABULARY_FILE
            (directory / name).write_bytes(found.contents())

    def check_layers(self, backbone: AlbertBackbone) -> None:
        """Check that the layers of a backbone share weights as they do there."""
        _check_groups(backbone.num_layers, backbone.num_groups)

    def write_tensors(
        self, prefix: Path, tensors: dict[str, Array], num_heads: int
    ) -> None:
        """Write the files of a checkpoint."""
        write_tensors(prefix, tensors)

    def _find_config(self, directory: Path) -> Path | None:
        """Return the config, or the only one whose name ends otherwise."""
        places = (directory, directory / _ASSETS)
        found = [place / self._pattern for place in places]
        found = [path for path in found if path.is_file()]
        if not found:
            pattern = self._pattern.replace(".json", "_*.json")
            found = [path for place in places for path in place.glob(pattern)]
        return found[0] if len(found) == 1 else None

    def _shapes(self, directory: Path) -> dict[str, tuple[int, ...]]:
        found = find_tensors(_checkpoint(directory))
        return {_bare(name): found[name].shape for name in found if _is_weight(name)}


def _checkpoint(directory: Path) -> Path:
    prefix = find_checkpoint(directory)
    if prefix is None:
        msg = (
            f"{directory} contains the config of a TF1 checkpoint, but no "
            "`model.ckpt-best.index` or other `*.ckpt*.index`. Copy or download the "
            "checkpoint again."
        )
        raise ValueError(msg)
    return prefix


def _is_weight(name: str) -> bool:
    return name.rpartition("/")[2] not in TRAINING_STATE


def _bare(name: str) -> str:
    return name.removeprefix(MODULE_PREFIX)


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


GOOGLE_BERT = GoogleFormat(
    *("google-bert", "google-research/bert", BERT),
    *("bert_config.json", "bert_model.ckpt"),
)
GOOGLE = GoogleFormat(
    *("google", "google-research/albert", ALBERT),
    *("albert_config.json", "model.ckpt-best"),
    GOOGLE_BERT,
)
FIRST_ALBERT_ZH = GoogleFormat(
    *("albert-zh", "albert_zh", ALBERT_ZH),
    *("albert_config.json", "albert_model.ckpt"),
)
