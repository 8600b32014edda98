"""Hugging Face transformers' checkpoints of ALBERT, BERT, ELECTRA and DistilBERT."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors.numpy import save_file

from keras_albert.checkpoints import tokenizer_json
from keras_albert.checkpoints.config import (
    LABELLED,
    SETS,
    backbone_arguments,
    backbone_config,
    check_groups,
    label_config,
    read_labels,
    wrong_value,
)
from keras_albert.checkpoints.transformers_names import (
    ALBERT,
    BERT,
    DISTILBERT,
    ELECTRA,
    READ,
)
from keras_albert.checkpoints.weight_map import (
    Array,
    Head,
    WeightMapCheckpoint,
    WeightMapFormat,
    backbone_of,
)
from keras_albert.presets.checkpoint import CheckpointFormat, Files
from keras_albert.presets.preset_files import CONFIG_FILE
from keras_albert.presets.weight_files import Shape, StoredTensor, open_weights
from keras_albert.tasks.classification.early_exit import with_last_head
from keras_albert.tasks.cloning import merge_adapters
from keras_albert.text.tokenizer import word_piece
from keras_albert.text.tokenizer.read_word_piece import has_word_piece, read_word_piece
from keras_albert.text.tokenizer.vocabularies import open_vocabulary
from keras_albert.utils.arguments import check_rates
from keras_albert.utils.atomic_files import atomic_file
from keras_albert.utils.reading import reading, write_json

_VOCABULARY_FILE = "spiece.model"
_TOKENIZER_FILE = "tokenizer.json"

# The name shared by heads of several classes, which the config tells apart.
_AMBIGUOUS_PREFIX = "classifier."

# The first parts of names in a file of the base class, which has no prefix.
_BARE = ("embeddings.", "embeddings_project.", "encoder.", "transformer.", "pooler.")

# DistilBERT's cannot be chosen.
_LAYER_NORM_EPSILON = 1e-12


class TransformersCheckpoint(WeightMapCheckpoint):
    """Files of transformers' `save_pretrained`, opened."""

    format: "TransformersFormat"
    vocabulary_files = (_VOCABULARY_FILE, _TOKENIZER_FILE)

    @property
    def _config(self) -> dict[str, Any]:
        return self.files.json(CONFIG_FILE)

    def backbone_arguments(self) -> dict[str, Any]:
        path = self.directory / CONFIG_FILE
        config, own = self._config, self.weight_map
        arguments = backbone_arguments(
            config, str(path), keys=own.keys, defaults=own.defaults
        )
        for key in ("is_decoder", "add_cross_attention"):
            if config.get(key):
                raise wrong_value(path, key, config[key], "false, as in an encoder")
        sizes = arguments["num_layers"], arguments["num_groups"]
        check_groups(*sizes, "transformers")
        if not own.always_projects:
            arguments["use_embedding_projection"] = None
        return arguments | {"pooler_activation": own.pooler_activation}

    def stored_shapes(self) -> list[Shape]:
        return [tensor.shape for tensor in self._tensors.values()]

    def task_name(self) -> str | None:
        found = set(self._classes()) - {self.weight_map.base_class}
        heads = [head for head in self.weight_map.heads if head.foreign in found]
        if not self._classes():
            stored = self._tensors
            heads = [
                head
                for head in self.weight_map.heads
                if head.mappings and all(each.name in stored for each in head.mappings)
            ]
            # A checkpoint for pretraining has the head of a masked LM and another.
            most = max((len(head.parts) for head in heads), default=0)
            heads = [head for head in heads if len(head.parts) == most]
            if len(heads) > 1:
                # Heads of several classes have the same names.
                return None
        return next((head.task for head in heads), None)

    def task_arguments(self, task: type) -> dict[str, Any]:
        config, source = self._config, str(self.directory / CONFIG_FILE)
        ours = [cls.__name__ for cls in task.__mro__]
        arguments: dict[str, Any] = {}
        for name in set(self.weight_map.dropouts) & set(ours):
            key, default = self.weight_map.dropouts[name]
            rate = config.get(key, default)
            if rate is None:
                # In transformers, `None` means the rate of the encoder.
                rate = self.backbone_arguments()["dropout"]
            check_rates(**{key: rate})
            arguments["dropout"] = rate
        if "AlbertMaskedLM" in ours and self.weight_map.head_activation is not None:
            arguments["head_activation"] = self.weight_map.head_activation
        if "AlbertMultipleChoice" in ours:
            for key, value in self.weight_map.summary.items():
                if config.get(key, value) != value:
                    raise wrong_value(source, key, config[key], repr(value))
        head = next((head for head in self.weight_map.heads if head.task in ours), None)
        if head and set(LABELLED) & set(ours) and self.has_head(head):
            count, labels = read_labels(config, source)
            arguments |= {"num_classes": count, "labels": labels}
            if "AlbertClassifier" in ours and config.get("problem_type") == SETS:
                arguments["activation"] = "sigmoid"
        return arguments

    def has_head(self, head: Head) -> bool:
        found = self._classes()
        names = [each.name for each in head.mappings]
        named_alike = any(name.startswith(_AMBIGUOUS_PREFIX) for name in names)
        return not (named_alike and found) or head.foreign in found

    def read_tensors(self, wanted: Callable[[str], bool]) -> dict[str, Array]:
        found = self._tensors
        if not found:
            raise missing_weights(self.directory)
        tensors = {name: found[name].read() for name in found if wanted(name)}
        if segments := self.weight_map.segments:
            sizes = self.backbone_arguments()
            shape = sizes["num_segments"], sizes["embedding_dim"]
            tensors[segments] = np.zeros(shape, "float32")
        return _untied(tensors, self.weight_map.tied, self.directory)

    @cached_property
    def _tensors(self) -> dict[str, StoredTensor]:
        tensors: dict[str, StoredTensor] = {}
        full_names = (self.weight_map.prefix, *self.weight_map.head_prefixes)
        for name, tensor in self.files.read(stored_weights).items():
            # In a model with a head.
            is_bare = name.startswith(_BARE) and not name.startswith(full_names)
            full = self.weight_map.prefix + name if is_bare else name
            if full in tensors:
                raise ValueError(f"The weights in {self} contain `{full}` twice.")
            tensors[full] = tensor
        # Buffers that files written by transformers 4 may contain are no weights.
        for name in ("position_ids", "token_type_ids"):
            tensors.pop(f"{self.weight_map.prefix}embeddings.{name}", None)
        return tensors

    def read_vocabulary(self) -> bytes:
        path = self.find_vocabulary()
        if path is not None and path.name == _VOCABULARY_FILE:
            vocabulary = super().read_vocabulary()
            vocabulary = tokenizer_json.add_stated_rules(vocabulary, self.directory)
        elif has_word_piece(self.directory):
            vocabulary = read_word_piece(self.directory)
        elif path is not None:
            vocabulary = tokenizer_json.vocabulary_from_tokenizer_json(path)
        else:
            vocabulary = super().read_vocabulary()
        self._check_padding(vocabulary)
        return vocabulary

    def _check_padding(self, vocabulary: bytes) -> None:
        """Check that a vocabulary's padding is the config's."""
        found = open_vocabulary(vocabulary)
        padding = found.special_tokens["pad_token"]
        stated = self._config.get("pad_token_id")
        if stated is not None and stated != found.ids[padding]:
            raise ValueError(
                f"{self.directory / CONFIG_FILE} has pad_token_id={stated!r}, which is "
                f"{found.ids[padding]} in its vocabulary. Copy the vocabulary that "
                "belongs to the weights, or pass a `tokenizer` or `preprocessor`."
            )

    def _classes(self) -> list[str]:
        return list(self._config.get("architectures") or ())


class TransformersFormat(WeightMapFormat):
    """`config.json` and `model.safetensors`, as `save_pretrained` writes them."""

    name = "Hugging Face transformers"
    opened = TransformersCheckpoint

    def recognizes(self, files: Files) -> bool:
        return find_model_type(files) == self.weight_map.model_type

    def refuse(self, files: Files) -> None:
        refuse_other_models(files)

    def for_model(self, model: Any) -> CheckpointFormat:
        """Return the format of the architecture that a model has."""
        # That of the files that it was loaded from; or BERT, ELECTRA or DistilBERT if
        # its dials and its pooler are theirs; or ALBERT. A format of another
        # architecture than ALBERT was chosen.
        if self.weight_map is not ALBERT:
            return self
        backbone = backbone_of(model)
        fitting = [each for each in BERT_FAMILY if each.fits(backbone)]
        origin = backbone.loaded_from
        chosen = [each for each in (*fitting, self) if each.key == origin]
        same = [
            each
            for each in fitting
            if each.weight_map.pooler_activation == backbone.pooler_activation
            and backbone.num_groups > 1
        ]
        return (*chosen, *same, self)[0]

    def fits(self, backbone: Any) -> bool:
        """Return whether a backbone has the two dials of this architecture."""
        if self.weight_map is ALBERT:
            return True
        own_layers = backbone.num_groups == backbone.num_layers
        are_equal = backbone.embedding_dim == backbone.hidden_dim
        if self.weight_map is DISTILBERT:
            # It has no use of segments.
            table = backbone.embedding.segment_embedding.embeddings
            has_segments = np.any(keras.ops.convert_to_numpy(table))
            if has_segments or backbone.layer_norm_epsilon != _LAYER_NORM_EPSILON:
                return False
        projects = backbone.embedding.projection is not None
        return bool(
            own_layers
            and backbone.num_inner_repetitions == 1
            and (are_equal or self.weight_map is ELECTRA)
            and projects != are_equal
        )

    def dump(self, model: keras.Model) -> dict[str, Array]:
        tensors = super().dump(model)
        tensors.pop(self.weight_map.segments or "", None)
        return tensors

    def write(
        self, model: keras.Model, directory: Path, vocabulary: bytes | None
    ) -> None:
        model = merge_adapters(with_last_head(model))
        config, tensors = self.config(model), self.dump(model)
        if self.weight_map.base_class in config["architectures"]:
            tensors = {
                name.removeprefix(self.weight_map.prefix): value
                for name, value in tensors.items()
            }
        words = None
        if vocabulary is not None and word_piece.is_word_piece(vocabulary):
            words = open_vocabulary(vocabulary)
            for name, role in (("pad", "pad"), ("bos", "cls"), ("eos", "sep")):
                if (key := f"{name}_token_id") in config:
                    config[key] = words.ids[words.special_tokens[f"{role}_token"]]
        write_json(directory / CONFIG_FILE, config, sort_keys=True)
        write_safetensors(directory, tensors)
        length = backbone_of(model).max_sequence_length
        if words is not None:
            (directory / words.file_name).write_bytes(words.contents())
        elif vocabulary is not None:
            (directory / _VOCABULARY_FILE).write_bytes(vocabulary)
        if vocabulary is not None:
            tokenizer_json.write_tokenizer_files(directory, vocabulary, length)

    def config(self, model: keras.Model) -> dict[str, Any]:
        """Translate a model's arguments to transformers' config."""
        backbone, head = backbone_of(model), self.head_for(model)
        if not self.fits(backbone):
            raise ValueError(
                f"The model does not have the sizes of {self.weight_map.model_type!r}. "
                "Export it with model_type='albert'."
            )
        check_groups(backbone.num_layers, backbone.num_groups, "transformers")
        config = backbone_config(backbone, keys=self.weight_map.keys)
        for key in self.weight_map.unused_keys:
            del config[key]
        config |= self.weight_map.special_ids | {
            "architectures": [head.foreign],
            "model_type": self.weight_map.model_type,
            "dtype": "float32",
            "tie_word_embeddings": True,
        }
        if head.task in self.weight_map.dropouts:
            config[self.weight_map.dropouts[head.task][0]] = model.dropout
        return config | label_config(model)


def find_model_type(files: Files) -> str | None:
    """Return the `model_type` of a model's files."""
    # A config without one, and a config of BERT with ALBERT's keys, do not say what the
    # weights are; then their names do.
    config = files.json(CONFIG_FILE)
    if "registered_name" in config:
        return None
    stated: Any = config.get("model_type")
    is_mixed = stated == "bert" and bool(
        {"embedding_size", "num_hidden_groups"} & set(config)
    )
    if is_mixed or (stated is None and {"hidden_size", "dim"} & set(config)):
        stated = _type_of(files.read(stored_weights)) or stated
    return stated if isinstance(stated, str) else None


def _type_of(names: Iterable[str]) -> str | None:
    text = "\n".join(("", *names))
    if ".albert_layer_groups." in text:
        return "albert"
    if ".attention.q_lin." in text:
        return "distilbert"
    if "\nelectra." in text or "embeddings_project." in text:
        return "electra"
    is_bert = "\nbert.encoder.layer." in text or "\nencoder.layer." in text
    return "bert" if is_bert else None


def refuse_other_models(files: Files) -> None:
    """Raise if files have a model of transformers that cannot be read."""
    model_type = find_model_type(files)
    if model_type is None or model_type in READ:
        return
    raise ValueError(
        f"{files.directory} contains a model of type {model_type!r}, which has a "
        f"different architecture. Choose a checkpoint of one of: {', '.join(READ)}."
    )


def _untied(
    tensors: dict[str, Array], tied: Mapping[str, str], directory: Path
) -> dict[str, Array]:
    """Remove second copies of tied tensors, which must be equal to the first."""
    for copy, original in tied.items():
        if copy not in tensors:
            continue
        tensor = tensors.pop(copy)
        if not np.array_equal(tensors.setdefault(original, tensor), tensor):
            raise ValueError(
                f"In {directory} `{copy}` differs from `{original}`, but the masked "
                "LM here shares them."
            )
    return tensors


TRANSFORMERS = TransformersFormat("transformers", ALBERT)
BERT_FAMILY = tuple(
    TransformersFormat(f"transformers-{each.model_type}", each)
    for each in (BERT, ELECTRA, DISTILBERT)
)


SAFETENSORS_FILE = "model.safetensors"
TORCH_FILE = "pytorch_model.bin"
H5_FILE = "tf_model.h5"
_INDEX = ".index.json"

# TensorFlow's kinds of weights, and PyTorch's.
_H5_KINDS = {
    "kernel": "weight",
    "gamma": "weight",
    "embeddings": "weight",
    "beta": "bias",
}
# TensorFlow's ALBERT has both, and computes with the second.
_H5_UNUSED, _H5_USED = "predictions.bias", "predictions.decoder.bias"


def stored_weights(directory: Path) -> dict[str, StoredTensor]:
    """Return a checkpoint's tensors by their present names; `{}` without files."""
    if any(directory.glob("*.safetensors*")):
        path = _find(directory, SAFETENSORS_FILE)
        if path is None:
            raise missing_weights(directory)
    else:
        path = _find(directory, TORCH_FILE) or _find(directory, H5_FILE)
    if path is None:
        return {}
    found = open_weights(path)
    if path.name == H5_FILE:
        with reading(path):
            found = _rename_h5(found)
    # The former names of a normalization's weights.
    return {
        re.sub(r"(?<=\.LayerNorm\.)(gamma|beta)$", lambda x: _H5_KINDS[x[0]], name): x
        for name, x in found.items()
    }


def missing_weights(directory: Path) -> ValueError:
    """Return the error about a checkpoint without weights."""
    return ValueError(
        f"{directory} contains neither `{SAFETENSORS_FILE}` nor "
        f"`{SAFETENSORS_FILE}{_INDEX}`, which `save_pretrained` of transformers writes."
    )


def _find(directory: Path, name: str) -> Path | None:
    paths = (directory / each for each in (name, name + _INDEX))
    return next((path for path in paths if path.is_file()), None)


def write_safetensors(directory: Path, tensors: dict[str, Array]) -> None:
    """Write one file that transformers reads."""
    # transformers refuses a file that does not name the library of its layout.
    # `save_file` restricts access to this user.
    with atomic_file(directory / SAFETENSORS_FILE) as partial:
        save_file(tensors, partial, metadata={"format": "pt"})


def _rename_h5(arrays: dict[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Return the tensors of a former TensorFlow class, by PyTorch's names."""
    # Source: `modeling_tf_pytorch_utils.py` of transformers 4.
    tensors: dict[str, StoredTensor] = {}
    for place, array in arrays.items():
        # The group of a layer, then the variable's name, with the names of the model
        # and of the layer. A head also lists the embeddings, which it shares.
        group, _, layer, *rest = place.split("/")
        if layer == group:
            *scopes, kind = "/".join((layer, *rest)).removesuffix(":0").split("/")
            name = ".".join((*scopes, _H5_KINDS.get(kind, kind)))
            name = re.sub(r"^[^.]*___", "", name.replace("_._", "."))
            tensors[name] = _transposed(array) if kind == "kernel" else array
    if _H5_USED in tensors:
        tensors[_H5_UNUSED] = tensors.pop(_H5_USED)
    return tensors


def _transposed(tensor: StoredTensor) -> StoredTensor:
    def read(original: Callable[[], Array]) -> Array:
        return original().T

    return tensor._replace(shape=tensor.shape[::-1], read=partial(read, tensor.read))
