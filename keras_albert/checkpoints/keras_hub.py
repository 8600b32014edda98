"""KerasHub's presets and models of ALBERT and BERT."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import keras
import keras_hub

from keras_albert.checkpoints.config import wrong_value
from keras_albert.checkpoints.weight_map import (
    KERAS_NAMING,
    Array,
    Block,
    Head,
    Mappings,
    WeightMap,
    WeightMapCheckpoint,
    WeightMapFormat,
    WeightMapping,
    backbone_of,
    check_same,
    dump_weights,
    has_bert_dials,
    load_weights,
    split_first,
    split_last,
    variables_by_path,
)
from keras_albert.presets.checkpoint import CheckpointFormat, Files, check_sizes
from keras_albert.presets.preset_files import (
    CONFIG_FILE,
    PREPROCESSOR_FILE,
    TASK_FILE,
    TASK_WEIGHTS_FILE,
    stored_shapes,
    weights_path,
)
from keras_albert.presets.weight_files import Shape, check_stored_weights, head_weights
from keras_albert.tasks.classification.early_exit import with_last_head
from keras_albert.tasks.cloning import merge_adapters
from keras_albert.text.tokenizer.word_piece import is_word_piece, parse_word_piece
from keras_albert.utils.reading import reading

# Presets written before the library was renamed contain its old name; the classifier
# and its preprocessor have been renamed as well.
_LIBRARIES = ("keras_hub>", "keras_nlp>")
_CLASS_NAMES = {
    "BertClassifier": "BertTextClassifier",
    "BertPreprocessor": "BertTextClassifierPreprocessor",
    "AlbertClassifier": "AlbertTextClassifier",
    "AlbertPreprocessor": "AlbertTextClassifierPreprocessor",
}

# The arguments of the backbone's constructor, which have the same names here.
ARGUMENTS = (
    *("vocabulary_size", "num_layers", "num_heads", "embedding_dim", "hidden_dim"),
    *("intermediate_dim", "num_groups", "num_inner_repetitions", "dropout"),
    *("max_sequence_length", "num_segments"),
)
_CLASSIFIER_ARGUMENTS = ("num_classes", "activation", "dropout")

# KerasHub's preprocessors, and ours. All settings have the same names.
_PREPROCESSORS = {
    f"{kind}{theirs}Preprocessor": f"Albert{ours}Preprocessor"
    for kind in ("Albert", "Bert")
    for theirs, ours in (("TextClassifier", "Classifier"), ("MaskedLM", "MaskedLM"))
}
_RATES = ("mask_selection_rate", "mask_token_rate", "random_token_rate")

# KerasHub's default length.
_DEFAULT_LENGTH = 512

_LAYER_NORM_EPSILON = 1e-12

_LAYERS = (
    (
        "self_attention_layer/query",
        "self_attention_layer/key",
        "self_attention_layer/value",
        "self_attention_layer/attention_output",
        "feedforward_intermediate_dense",
        "feedforward_output_dense",
    ),
    ("self_attention_layer_norm", "feedforward_layer_norm"),
)


def _block(scope: str) -> Block:
    """Map a block; KerasHub has an axis for heads, which share one axis here."""
    map_block = KERAS_NAMING.block(scope, *_LAYERS)

    def block(group: int, inner: int, num_heads: int) -> Mappings:
        found = []
        for each in map_block(group, inner, num_heads):
            _, layer, weight = each.variable.rsplit("/", 2)
            if layer in ("query", "key", "value"):
                each = replace(each, transform=split_last(num_heads))  # noqa: PLW2901
            elif (layer, weight) == ("attention_output", "kernel"):
                each = replace(each, transform=split_first(num_heads))  # noqa: PLW2901
            found.append(each)
        return tuple(found)

    return block


def _weight_map(kind: str, block: str, **others: Any) -> WeightMap:
    """Return the paths of variables; `block` contains `{group}` and `{inner}`."""
    predictions = KERAS_NAMING.masked_lm(
        "mlm_head/intermediate_dense",
        "mlm_head/intermediate_layer_norm",
        "mlm_head/output_bias",
    )
    logits = KERAS_NAMING.dense("logits", "logits")
    return WeightMap(
        embeddings=KERAS_NAMING.embeddings(
            ("token_embedding", "position_embedding", "segment_embedding"),
            "embeddings_layer_norm",
        ),
        pooler=KERAS_NAMING.dense("pooler", "pooled_dense"),
        block=_block(block),
        heads=(
            Head("AlbertBackbone", f"{kind}Backbone"),
            Head("AlbertTextEmbedder", f"{kind}Backbone"),
            Head("AlbertClassifier", f"{kind}TextClassifier", (logits,)),
            Head("AlbertMaskedLM", f"{kind}MaskedLM", (predictions,)),
        ),
        head_prefixes=("logits/", "mlm_head/"),
        head_epsilon=1e-5,
        **others,
    )


ALBERT = _weight_map(
    "Albert",
    "group_{group}_inner_layer_{inner}/",
    always_projects=True,
    projection=KERAS_NAMING.dense("embedding/projection", "embedding_projection"),
)
BERT = _weight_map(
    "Bert",
    "transformer_layer_{group}/",
    # The erf form, although the encoder has the tanh form.
    head_activation="gelu",
)


class KerasHubCheckpoint(WeightMapCheckpoint):
    """A preset of KerasHub, opened."""

    format: "KerasHubFormat"
    vocabulary_files = ("assets/tokenizer/vocabulary.spm", "vocabulary.spm")

    def _config(self, name: str) -> dict[str, Any]:
        config = self.files.json(name).get("config")
        if not isinstance(config, dict):
            path = self.directory / name
            raise ValueError(f"{path} contains no `config`. Copy or download it again.")
        return config

    def backbone_arguments(self) -> dict[str, Any]:
        config = self._backbone_config
        return config | {
            # KerasHub has one rate for all dropouts.
            "attention_dropout": config.get("dropout", 0.0),
            "activation": "gelu_approximate",
            "layer_norm_epsilon": _LAYER_NORM_EPSILON,
            "use_embedding_projection": self.weight_map.always_projects,
        }

    def stored_shapes(self) -> list[Shape]:
        return stored_shapes(self.files)

    def task_name(self) -> str | None:
        found = _class_name(self.files, TASK_FILE)
        heads = (head for head in self.weight_map.heads if head.foreign == found)
        return next((head.task for head in heads), None)

    def task_arguments(self, task: type) -> dict[str, Any]:
        ours = [cls.__name__ for cls in task.__mro__]
        if self.task_name() not in ours:
            return {}
        if "AlbertMaskedLM" in ours:
            return {
                "head_layer_norm_epsilon": self.weight_map.head_epsilon,
                "head_activation": self.weight_map.head_activation,
            }
        return self._classifier_arguments()

    def preprocessor_arguments(self, preprocessor: Any) -> dict[str, Any]:
        """Return the arguments of a preprocessor class that the checkpoint defines.

        KerasHub's default length becomes ours, unless the backbone has more positions:
        it truncates the same texts and pads less.
        """
        ours = _PREPROCESSORS.get(_class_name(self.files, PREPROCESSOR_FILE) or "", "")
        if ours not in {cls.__name__ for cls in preprocessor.__mro__}:
            return {}
        config = self._config(PREPROCESSOR_FILE)
        names = ["sequence_length", "truncate"]
        if "MaskedLM" in ours:
            names += ["mask_selection_length", *_RATES]
        settings = {name: config[name] for name in names if name in config}
        self._check_same("preprocessor", PREPROCESSOR_FILE, settings)
        if settings.get("sequence_length") == _DEFAULT_LENGTH:
            most = self._backbone_config.get("max_sequence_length", _DEFAULT_LENGTH)
            if most <= _DEFAULT_LENGTH:
                settings["sequence_length"] = None
        return settings

    def has_head(self, head: Head) -> bool:
        return _class_name(self.files, TASK_FILE) == head.foreign

    def read_tensors(self, wanted: Callable[[str], bool]) -> dict[str, Array]:
        needs_head = any(map(wanted, self.weight_map.head_prefixes))
        theirs = self._load_theirs(needs_head)
        tensors = dump_weights(theirs, _own_mappings(theirs))
        return {name: tensors[name] for name in tensors if wanted(name)}

    @cached_property
    def _backbone_config(self) -> dict[str, Any]:
        path = self.directory / CONFIG_FILE
        config = self._config(CONFIG_FILE)
        if _class_name(self.files, CONFIG_FILE) == "BertBackbone":
            # Its embeddings are as wide as the encoder, and its layers share nothing.
            config = config | {
                "embedding_dim": config.get("hidden_dim"),
                "num_groups": config.get("num_layers"),
            }
        check_sizes(config, str(path))
        layers, groups = config["num_layers"], config.get("num_groups", 1)
        if layers % groups:
            expected = f"a divisor of `num_layers`, {layers}"
            raise wrong_value(path, "num_groups", groups, expected)
        arguments = {name: config[name] for name in ARGUMENTS if name in config}
        stored = {name: self._config(CONFIG_FILE).get(name) for name in arguments}
        self._check_same("backbone", CONFIG_FILE, stored)
        return arguments

    def _classifier_arguments(self) -> dict[str, Any]:
        config = self._config(TASK_FILE)
        return {name: config[name] for name in _CLASSIFIER_ARGUMENTS if name in config}

    def _check_same(self, part: str, file: str, settings: Mapping[str, Any]) -> None:
        """Check that `task.json` agrees with the file of a part."""
        path = self.directory / TASK_FILE
        in_task = (self.files.json(TASK_FILE).get("config") or {}).get(part) or {}
        others = in_task.get("config") or {}
        for name, value in settings.items():
            if name in others and others[name] != value:
                raise ValueError(
                    f"{path} and {file} contradict each other: `{name}` of "
                    f"the {part} is {others[name]!r} and {value!r}. Copy them again."
                )

    def _load_theirs(self, with_head: bool) -> keras.Model:
        dtype = self._config(CONFIG_FILE).get("dtype")
        if isinstance(dtype, dict) and dtype.get("class_name") != "DTypePolicy":
            raise ValueError(
                f"{self} contains quantized weights. Load the preset in floating "
                "point, and call `quantize`."
            )
        path = weights_path(self.directory)
        name = str(_class_name(self.files, CONFIG_FILE))
        backbone = _new_backbone(name, self._backbone_config)
        with reading(path):
            check_stored_weights(backbone, path)
            backbone.load_weights(str(path))
        if not with_head:
            return backbone
        path = self.directory / TASK_WEIGHTS_FILE
        name = str(_class_name(self.files, TASK_FILE))
        is_classifier = name.endswith("TextClassifier")
        arguments = self._classifier_arguments() if is_classifier else {}
        cls = getattr(keras_hub.models, name)
        theirs = cls(backbone, preprocessor=None, **arguments)
        with reading(path):
            check_stored_weights(head_weights(theirs), path)
            theirs.load_task_weights(str(path))
        return theirs


class KerasHubFormat(WeightMapFormat):
    """Presets written by KerasHub's `save_to_preset`."""

    name = "KerasHub"
    opened = KerasHubCheckpoint

    def __init__(self, key: str, weight_map: WeightMap, backbone: str) -> None:
        super().__init__(key, weight_map)
        self._backbone = backbone

    def recognizes(self, files: Files) -> bool:
        return _class_name(files, CONFIG_FILE) == self._backbone

    def for_model(self, model: Any) -> CheckpointFormat:
        is_bert = self.weight_map is ALBERT and has_bert_dials(backbone_of(model))
        return KERAS_HUB_BERT if is_bert else self

    def write(
        self, model: keras.Model, directory: Path, vocabulary: bytes | None
    ) -> None:
        model = merge_adapters(with_last_head(model))
        head, backbone = self.head_for(model), backbone_of(model)
        tokenizer = self._tokenizer(vocabulary)
        tensors = self.dump(model)
        check_same(
            "KerasHub",
            backbone,
            activation="gelu_approximate",
            layer_norm_epsilon=_LAYER_NORM_EPSILON,
        )
        sizes = {name: getattr(backbone, name) for name in ARGUMENTS}
        theirs = _new_backbone(self._backbone, sizes)
        if head.foreign != self._backbone:
            cls = getattr(keras_hub.models, head.foreign)
            arguments: dict[str, Any] = {"preprocessor": None}
            if tokenizer is not None:
                # For the widest batch.
                ours: Any = getattr(model, "preprocessor", None)
                length = backbone.max_sequence_length
                settings: dict[str, Any] = {"sequence_length": length}
                if ours is not None:
                    length = min(ours.max_length, length)
                    settings = {"sequence_length": length, "truncate": ours.truncate}
                if hasattr(ours, "mask_selection_rate"):
                    settings |= {name: getattr(ours, name) for name in _RATES}
                    settings["mask_selection_length"] = ours.mask_slots(length)
                arguments["preprocessor"] = cls.preprocessor_cls(tokenizer, **settings)
            if head.task == "AlbertClassifier":
                arguments |= {n: getattr(model, n) for n in _CLASSIFIER_ARGUMENTS}
            theirs = cls(theirs, **arguments)
        load_weights(theirs, tensors, _own_mappings(theirs), source=model.name)
        theirs.save_to_preset(str(directory))
        if tokenizer is not None and head.foreign == self._backbone:
            tokenizer.save_to_preset(str(directory))

    def _tokenizer(self, vocabulary: bytes | None) -> Any:
        """Return KerasHub's tokenizer, if there is a vocabulary."""
        if vocabulary is None:
            return None
        takes_pieces = self.weight_map is ALBERT
        if is_word_piece(vocabulary) == takes_pieces:
            kind = "SentencePiece" if takes_pieces else "WordPiece"
            raise ValueError(
                f"KerasHub's {self._backbone} has a {kind} vocabulary, and this model "
                "another. Save it as a preset of keras_albert, or for transformers."
            )
        if takes_pieces:
            return keras_hub.tokenizers.AlbertTokenizer(vocabulary)
        pieces, rules = parse_word_piece(vocabulary)
        return keras_hub.tokenizers.BertTokenizer(
            list(pieces),
            lowercase=rules.lowercase,
            strip_accents=rules.strip_accents,
            split_on_cjk=rules.split_cjk,
        )


def _class_name(files: Files, file: str) -> str | None:
    name = str(files.json(file).get("registered_name"))
    for library in _LIBRARIES:
        if name.startswith(library):
            name = name.removeprefix(library)
            return _CLASS_NAMES.get(name, name)
    return None


def _new_backbone(name: str, arguments: dict[str, Any]) -> keras.Model:
    cls = getattr(keras_hub.models, name)
    known = inspect.signature(cls.__init__).parameters
    arguments = {key: value for key, value in arguments.items() if key in known}
    return cls(**arguments, dtype="float32")


def _own_mappings(theirs: keras.Model) -> list[WeightMapping]:
    return [WeightMapping(path, path) for path in variables_by_path(theirs)]


KERAS_HUB = KerasHubFormat("keras-hub", ALBERT, "AlbertBackbone")
KERAS_HUB_BERT = KerasHubFormat("keras-hub-bert", BERT, "BertBackbone")
