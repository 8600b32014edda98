"""KerasHub's presets and models of ALBERT and BERT."""

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import keras_hub

from keras_albert.backbone import AlbertBackbone
from keras_albert.conversion.keras_hub import names
from keras_albert.conversion.keras_hub.config import (
    ARGUMENTS,
    CLASSIFIER_ARGUMENTS,
    CONFIG_FILE,
    TASK_FILE,
    backbone_config,
    class_name,
    classifier_arguments,
    preprocessor_arguments,
    preprocessor_settings,
    read_config,
)
from keras_albert.conversion.tables.heads import Head, backbone_of, has_bert_dials
from keras_albert.conversion.tables.tabled_format import TabledFormat
from keras_albert.conversion.tables.weight_table import (
    Array,
    Row,
    dump_weights,
    load_weights,
    variables_by_path,
)
from keras_albert.layers.run_layers import gelu_approximate, get_activation
from keras_albert.presets.checkpoint_formats import CheckpointFormat
from keras_albert.presets.model_size import check_size
from keras_albert.presets.preset_files import INDEX_FILE, WEIGHTS_FILE
from keras_albert.presets.stored_weights import (
    check_stored_weights,
    stored_arrays,
    weights_path,
)
from keras_albert.tasks.base.other_backbone import merge_adapters
from keras_albert.text.tokenizer.word_piece import is_word_piece, parse_word_piece
from keras_albert.utils.reading import reading

_TASK_WEIGHTS_FILE = "task.weights.h5"

_LAYER_NORM_EPSILON = 1e-12
_HEAD_LAYER_NORM_EPSILON = 1e-5


class KerasHubFormat(TabledFormat):
    """Presets written by KerasHub's `save_to_preset`."""

    name = "KerasHub"
    vocabulary_files = ("assets/tokenizer/vocabulary.spm", "vocabulary.spm")

    def __init__(self, key: str, table: Any, backbone: str) -> None:
        self.key, self.table, self._backbone = key, table, backbone
        # KerasHub's ALBERT always projects, its BERT never.
        self.always_projects = table is names

    def recognizes(self, directory: Path) -> bool:
        """Return whether a directory is a preset of KerasHub's backbone."""
        return class_name(directory / CONFIG_FILE) == self._backbone

    def for_model(self, model: Any) -> CheckpointFormat:
        """Return BERT's format for a model with BERT's dials."""
        is_bert = self.always_projects and has_bert_dials(backbone_of(model))
        return KERAS_HUB_BERT if is_bert else self

    def backbone_arguments(self, directory: Path) -> dict[str, Any]:
        """Return the constructor arguments of the checkpoint's backbone."""
        config = backbone_config(directory)
        return config | {
            # KerasHub has one rate for all dropouts.
            "attention_dropout": config.get("dropout", 0.0),
            "activation": "gelu_approximate",
            "layer_norm_epsilon": _LAYER_NORM_EPSILON,
            "use_embedding_projection": self.always_projects,
        }

    def stored_shapes(self, directory: Path) -> list[tuple[int, ...]]:
        """Return the shapes of the weights in the checkpoint's files."""
        names = (WEIGHTS_FILE, INDEX_FILE, _TASK_WEIGHTS_FILE)
        paths = [directory / name for name in names if (directory / name).is_file()]
        return [array.shape for path in paths for array in stored_arrays(path)]

    def task_name(self, directory: Path) -> str | None:
        """Return the name of the task class for the checkpoint's head, or `None`."""
        found = class_name(directory / TASK_FILE)
        return next(
            (head.task for head in self.table.HEADS if head.foreign == found), None
        )

    def task_arguments(self, directory: Path, task: type) -> dict[str, Any]:
        """Return the arguments of a task class that the checkpoint defines."""
        ours = [cls.__name__ for cls in task.__mro__]
        if self.task_name(directory) not in ours:
            return {}
        if "AlbertMaskedLM" in ours:
            return {
                "head_layer_norm_epsilon": _HEAD_LAYER_NORM_EPSILON,
                "head_activation": self.head_activation,
            }
        arguments = classifier_arguments(directory)
        shapes = self.stored_shapes(directory)
        width = backbone_config(directory)["hidden_dim"]
        check_size(arguments["num_classes"] * width, shapes, f"The task of {directory}")
        return arguments

    def preprocessor_arguments(
        self, directory: Path, preprocessor: type
    ) -> dict[str, Any]:
        """Return the arguments of a preprocessor class that the checkpoint defines."""
        return preprocessor_arguments(directory, preprocessor)

    def has_head(self, directory: Path, head: Head) -> bool:
        """Return whether a checkpoint's task is of a head's kind."""
        return class_name(directory / TASK_FILE) == head.foreign

    def read_tensors(
        self, directory: Path, wanted: Callable[[str], bool]
    ) -> dict[str, Array]:
        """Return the wanted weights, by the names of the rows."""
        needs_head = any(map(wanted, self.table.HEAD_PREFIXES))
        theirs = _load_theirs(directory, needs_head)
        tensors = dump_weights(theirs, _own_rows(theirs))
        return {name: tensors[name] for name in tensors if wanted(name)}

    def write(
        self, model: keras.Model, directory: Path, vocabulary: bytes | None
    ) -> None:
        """Write a preset that KerasHub loads without this package."""
        model = merge_adapters(model)
        head, backbone = self.head_for(model), backbone_of(model)
        tokenizer = self._tokenizer(vocabulary)
        tensors = self.dump(model)
        if head.task == "AlbertMaskedLM":
            _warn_of_epsilon(model)
        theirs = _build_theirs(backbone, self._backbone)
        if head.foreign != self._backbone:
            cls = getattr(keras_hub.models, head.foreign)
            arguments: dict[str, Any] = {"preprocessor": None}
            if tokenizer is not None:
                settings = preprocessor_settings(
                    getattr(model, "preprocessor", None), backbone.max_sequence_length
                )
                arguments["preprocessor"] = cls.preprocessor_cls(tokenizer, **settings)
            if head.task == "AlbertClassifier":
                arguments |= {n: getattr(model, n) for n in CLASSIFIER_ARGUMENTS}
            theirs = cls(theirs, **arguments)
        load_weights(theirs, tensors, _own_rows(theirs), source=model.name)
        theirs.save_to_preset(str(directory))
        if tokenizer is not None and head.foreign == self._backbone:
            tokenizer.save_to_preset(str(directory))

    def _tokenizer(self, vocabulary: bytes | None) -> Any:
        """Return KerasHub's tokenizer, if there is a vocabulary."""
        if vocabulary is None:
            return None
        if is_word_piece(vocabulary) == self.always_projects:
            kinds = ("SentencePiece", "WordPiece")
            theirs, ours = kinds if self.always_projects else kinds[::-1]
            msg = (
                f"KerasHub's {self._backbone} has a {theirs} vocabulary, and this "
                f"model's is a {ours}. Save it as a preset of keras_albert, or export "
                "it to transformers."
            )
            raise ValueError(msg)
        if self.always_projects:
            return keras_hub.tokenizers.AlbertTokenizer(vocabulary)
        pieces, rules = parse_word_piece(vocabulary)
        return keras_hub.tokenizers.BertTokenizer(
            list(pieces),
            lowercase=rules.lowercase,
            strip_accents=rules.strip_accents,
            split_on_cjk=rules.split_cjk,
        )


def _build_theirs(ours: AlbertBackbone, backbone: str) -> keras.Model:
    fits = {
        "activation": get_activation(ours.activation) is gelu_approximate,
        "layer_norm_epsilon": ours.layer_norm_epsilon == _LAYER_NORM_EPSILON,
        "num_groups": ours.num_layers % ours.num_groups == 0,
    }
    unfit = [f"{name}={getattr(ours, name)!r}" for name in fits if not fits[name]]
    if unfit:
        msg = (
            f"KerasHub's {backbone} computes the tanh form of GELU, a LayerNorm with "
            f"epsilon {_LAYER_NORM_EPSILON}, and groups of equal depth. Received: "
            f"{', '.join(unfit)}. Save the model as a preset of keras_albert instead."
        )
        raise ValueError(msg)
    return _new_backbone(backbone, {name: getattr(ours, name) for name in ARGUMENTS})


def _new_backbone(name: str, arguments: dict[str, Any]) -> keras.Model:
    cls = getattr(keras_hub.models, name)
    known = inspect.signature(cls).parameters
    arguments = {key: value for key, value in arguments.items() if key in known}
    return cls(**arguments, dtype="float32")


def _warn_of_epsilon(model: Any) -> None:
    """Warn of an epsilon that KerasHub's class cannot have; the effect is tiny."""
    if model.masked_lm_head.layer_norm_epsilon != _HEAD_LAYER_NORM_EPSILON:
        warnings.warn(
            "KerasHub's masked LM head normalizes with epsilon "
            f"{_HEAD_LAYER_NORM_EPSILON}, and this one with "
            f"{model.masked_lm_head.layer_norm_epsilon}: scores will differ slightly.",
            stacklevel=2,
        )


def _load_theirs(directory: Path, with_head: bool) -> keras.Model:
    """Load KerasHub's model, without its preprocessor."""
    dtype = read_config(directory / CONFIG_FILE).get("dtype")
    if isinstance(dtype, dict) and dtype.get("class_name") != "DTypePolicy":
        msg = (
            f"{directory} contains quantized weights ({dtype.get('class_name')}), "
            "which this package cannot read, because its layers differ. Use the "
            "preset in floating point and call `quantize` on the model."
        )
        raise ValueError(msg)
    path = weights_path(directory)
    name = str(class_name(directory / CONFIG_FILE))
    backbone = _new_backbone(name, backbone_config(directory))
    with reading(path):
        check_stored_weights(backbone, path)
        backbone.load_weights(str(path))
    if not with_head:
        return backbone
    path = directory / _TASK_WEIGHTS_FILE
    if not path.is_file():
        msg = (
            f"{path}, the weights of the head, is missing. Copy or download it as well."
        )
        raise ValueError(msg)
    name = str(class_name(directory / TASK_FILE))
    is_classifier = name.endswith("TextClassifier")
    arguments = classifier_arguments(directory) if is_classifier else {}
    cls = getattr(keras_hub.models, name)
    theirs = cls(backbone, preprocessor=None, **arguments)
    with reading(path):
        inside = {id(weight) for weight in backbone.weights}
        own = [weight for weight in theirs.weights if id(weight) not in inside]
        check_stored_weights(own, path)
        theirs.load_task_weights(str(path))
    return theirs


def _own_rows(theirs: keras.Model) -> list[Row]:
    return [Row(path, path) for path in variables_by_path(theirs)]


KERAS_HUB = KerasHubFormat("keras-hub", names, "AlbertBackbone")
KERAS_HUB_BERT = KerasHubFormat("keras-hub-bert", names.BERT, "BertBackbone")
