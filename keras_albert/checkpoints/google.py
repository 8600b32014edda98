"""TensorFlow's checkpoints of ALBERT and BERT: google-research's, and others to read.

Checkpoints of TensorFlow Model Garden, which TF-Hub's SavedModels contain, have the
names of attributes of Python objects, which depend on how an encoder was built. The
graph of the objects also has the names of variables, which do not; they become
google-research's here. A SavedModel has no config: the shapes of its weights tell the
sizes. Nothing is executed.

Source: `tf1_bert_checkpoint_converter_lib.py` and
`tf2_albert_encoder_checkpoint_converter.py` of tf-models-official.
"""

import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_albert.checkpoints.config import (
    backbone_arguments,
    backbone_config,
    check_groups,
    wrong_value,
)
from keras_albert.checkpoints.weight_map import (
    KERAS_NAMING,
    TRANSPOSED,
    Array,
    Head,
    Mappings,
    WeightMap,
    WeightMapCheckpoint,
    WeightMapFormat,
    WeightMapping,
    backbone_of,
    check_same,
    has_bert_dials,
)
from keras_albert.presets.checkpoint import CheckpointFormat, Files
from keras_albert.presets.weight_files import Shape, StoredTensor, open_weights
from keras_albert.tasks.classification.early_exit import with_last_head
from keras_albert.tasks.cloning import merge_adapters
from keras_albert.text.tokenizer import word_piece
from keras_albert.text.tokenizer.vocabularies import open_vocabulary
from keras_albert.utils.environment import import_package
from keras_albert.utils.reading import read_bytes, reading, write_json

# The prefix of each name in a TF-Hub module.
MODULE_PREFIX = "module/"

# The last parts of the names of training state, which is stored with the weights.
TRAINING_STATE = (
    *("adam_m", "adam_v", "lamb_m", "lamb_v", "Adam", "Adam_1"),
    *("beta1_power", "beta2_power", "global_step"),
)

# A factor of the first generation of albert_zh: there, the embeddings are the product
# of two matrices, to which positions and segments are added.
SECOND_FACTOR = "bert/embeddings/word_embeddings_2"


# Tables of embeddings have no name of their own.
_NAMING = replace(KERAS_NAMING, table="")


def _output(ours: str, scope: str) -> Mappings:
    """Map a last layer; only these are (out, in), as in PyTorch."""
    return (
        WeightMapping(f"{ours}/kernel", f"{scope}output_weights", TRANSPOSED),
        WeightMapping(f"{ours}/bias", f"{scope}output_bias"),
    )


_PREDICTIONS = _NAMING.masked_lm(
    "cls/predictions/transform/dense",
    "cls/predictions/transform/LayerNorm",
    "cls/predictions/output_bias",
)
_SENTENCE_ORDER = _output("sentence_order", "cls/seq_relationship/")
_SPANS = _output("span_logits", "cls/squad/")
_CONDITIONAL_SPANS = (
    *_NAMING.dense("span_head/start", "start_logits/dense"),
    *_NAMING.dense("span_head/end_dense", "end_logits/dense_0"),
    *_NAMING.norm("span_head/end_layer_norm", "end_logits/LayerNorm"),
    *_NAMING.dense("span_head/end", "end_logits/dense_1"),
    *_NAMING.dense("span_head/answerability_dense", "answer_class/dense_0"),
    WeightMapping("span_head/answerability/kernel", "answer_class/dense_1/kernel"),
)

# The names in a block: of `DENSE_LAYERS`, and of the normalizations.
ALBERT_LAYERS = (
    (
        *("attention_1/self/query", "attention_1/self/key", "attention_1/self/value"),
        *("attention_1/output/dense", "ffn_1/intermediate/dense"),
        "ffn_1/intermediate/output/dense",
    ),
    ("LayerNorm", "LayerNorm_1"),
)
BERT_LAYERS = (
    (
        *("attention/self/query", "attention/self/key", "attention/self/value"),
        *("attention/output/dense", "intermediate/dense", "output/dense"),
    ),
    ("attention/output/LayerNorm", "output/LayerNorm"),
)

ALBERT = WeightMap(
    embeddings=_NAMING.embeddings(
        (
            "bert/embeddings/word_embeddings",
            "bert/embeddings/position_embeddings",
            "bert/embeddings/token_type_embeddings",
        ),
        "bert/embeddings/LayerNorm",
    ),
    projection=_NAMING.dense(
        "embedding/projection", "bert/encoder/embedding_hidden_mapping_in"
    ),
    pooler=_NAMING.dense("pooler", "bert/pooler/dense"),
    block=_NAMING.block(
        "bert/encoder/transformer/group_{group}/inner_group_{inner}/", *ALBERT_LAYERS
    ),
    # In the order in which a checkpoint of unknown kind is checked.
    heads=(
        Head("AlbertPretrainer", "pretraining", (_PREDICTIONS, _SENTENCE_ORDER)),
        Head("AlbertMaskedLM", "masked LM", (_PREDICTIONS,)),
        Head("AlbertQuestionAnswerer", "SQuAD v1", (_SPANS,)),
        Head("AlbertQuestionAnswerer", "SQuAD v2", (_CONDITIONAL_SPANS,)),
        Head("AlbertClassifier", "GLUE", (_output("logits", ""),)),
        Head("AlbertMultipleChoice", "RACE", (_output("score", ""),)),
        Head("AlbertBackbone", "no head"),
        Head("AlbertTextEmbedder", "no head"),
    ),
    head_prefixes=(
        *("cls/predictions/", "cls/seq_relationship/", "cls/squad/"),
        *("start_logits/", "end_logits/", "answer_class/"),
        *("output_weights", "output_bias"),
    ),
)

BERT = replace(
    ALBERT,
    projection=(),
    block=_NAMING.block("bert/encoder/layer_{group}/", *BERT_LAYERS),
)
# The first generation, whose layers share one.
ALBERT_ZH = replace(
    BERT, block=_NAMING.block("bert/encoder/layer_shared/", *BERT_LAYERS)
)


ALBERT_LAYER = "bert/encoder/transformer/group_0/inner_group_0"


# The layers of an encoder and of a masked LM's head in the names of variables there,
# and in google-research's.
_NAMES = (
    ("word_embeddings", "bert/embeddings/word_embeddings"),
    ("position_embedding", "bert/embeddings/position_embeddings"),
    ("type_embeddings", "bert/embeddings/token_type_embeddings"),
    ("embeddings/layer_norm", "bert/embeddings/LayerNorm"),
    ("embedding_projection", "bert/encoder/embedding_hidden_mapping_in"),
    ("pooler_transform", "bert/pooler/dense"),
    *(
        (f"bert/{name}", name)
        for name in (
            "cls/predictions/transform/dense",
            "cls/predictions/transform/LayerNorm",
            "cls/predictions/output_bias",
        )
    ),
)
# Where google-research names the variable itself.
_ALONE = ("_embeddings", "output_bias")

# In a layer, in the order of google-research's.
_IN_LAYER = (
    *("self_attention/query", "self_attention/key", "self_attention/value"),
    *("self_attention/attention_output", "intermediate", "output"),
    *("self_attention_layer_norm", "output_layer_norm"),
)
_LAYER = re.compile(r"(?:.+/)?transformer/(layer_\d+/)?(.+)/(\w+)")


def google_name(variable: str) -> str | None:
    """Return google-research's name of a variable; `None` if it has none."""
    found = _LAYER.fullmatch(variable)
    if found and found[2] in _IN_LAYER:
        place = _IN_LAYER.index(found[2])
        if found[1] is None:
            return f"{ALBERT_LAYER}/{[*chain(*ALBERT_LAYERS)][place]}/{found[3]}"
        return f"bert/encoder/{found[1]}{[*chain(*BERT_LAYERS)][place]}/{found[3]}"
    for theirs, name in _NAMES:
        # A layer has a scope, a functional model has none.
        if found := re.fullmatch(rf"(?:.+/)?{theirs}/(\w+)", variable):
            return name if name.endswith(_ALONE) else f"{name}/{found[1]}"
    return None


def google_shape(name: str, shape: Shape) -> Shape:
    """Return a weight's shape in google-research, where heads share an axis."""
    if name.endswith("/kernel") and len(shape) == 3:
        first, heads, last = shape
        is_output = name.endswith("output/dense/kernel")
        return (first * heads, last) if is_output else (first, heads * last)
    if name.endswith("/bias") and len(shape) == 2:
        return (shape[0] * shape[1],)
    return shape


SAVED_MODEL = "saved_model.pb"

# A graph contains no weights.
_MAX_BYTES = 2**28

_LOWERCASES = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"
_WORDS = "bert/embeddings/word_embeddings"
_ALBERT_PARTS = ("attention_1/self/query/kernel", "ffn_1/intermediate/dense/bias")
_BERT = "bert/encoder/layer_{}"
_BERT_PARTS = ("attention/self/query/kernel", "intermediate/dense/bias")

# The entry of a checkpoint with the graph of its objects.
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def find_checkpoint(directory: Path) -> Path | None:
    """Return the prefix of a checkpoint's files: the best, the last or the only one."""
    if (directory / "model.ckpt-best.index").is_file():
        return directory / "model.ckpt-best"
    found = [
        (each[1], int(each[2]), path.with_suffix(""))
        for path in directory.glob("*ckpt-*.index")
        if (each := re.fullmatch(r"(.*\bckpt)-(\d+)\.index", path.name))
    ]
    if len({name for name, *_ in found}) == 1:
        return max(found)[-1]
    others = list(directory.glob("*.ckpt.index"))
    if len(others) == 1:
        return others[0].with_suffix("")
    module = directory / "variables" / "variables"
    return module if module.with_suffix(".index").is_file() else None


def stored_tensors(prefix: Path, reshaped: bool = True) -> dict[str, StoredTensor]:
    """Return the tensors of a checkpoint by google-research's names, in its shapes."""
    found = open_weights(_index(prefix))
    graph = found.pop(_OBJECT_GRAPH, None)
    if graph is None:
        return found
    with reading(_index(prefix)):
        shapes = {key: tensor.shape for key, tensor in found.items()}
        names = _google_names(graph.read(), shapes)  # type: ignore[arg-type]
    tensors = {name: found[key] for key, name in names.items()}
    if not reshaped:
        return tensors
    return {
        name: _reshape(tensor, google_shape(name, tensor.shape))
        for name, tensor in tensors.items()
    }


def _reshape(tensor: StoredTensor, shape: Shape) -> StoredTensor:
    def read(original: Callable[[], Array]) -> Array:
        return np.reshape(original(), shape)

    return tensor._replace(shape=shape, read=partial(read, tensor.read))


def _index(prefix: Path) -> Path:
    return prefix.with_name(f"{prefix.name}.index")


def write_tensors(prefix: Path, tensors: Mapping[str, Array]) -> None:
    """Write a checkpoint that `tf.train.load_checkpoint` reads."""
    tf: Any = import_package("A checkpoint of TensorFlow", "tensorflow", "tensorflow")
    names = sorted(tensors)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(tensors[name]) for name in names],
    )
    # Marks the latest checkpoint of the directory.
    state = f'model_checkpoint_path: "{prefix.name}"\n'
    (prefix.parent / "checkpoint").write_text(state, encoding="utf-8")


def _google_names(graph: bytes, shapes: Mapping[str, Shape]) -> dict[str, str]:
    """Return google-research's names by keys; an unknown variable's is its key."""
    # Training state and heads other than a masked LM's are left out.
    from tensorflow.core.protobuf import trackable_object_graph_pb2  # noqa: PLC0415  (slow to import)

    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes
    names: dict[str, str] = {}
    for node in nodes:
        for attribute in node.attributes:
            key, variable = attribute.checkpoint_key, attribute.full_name
            name = google_name(variable)
            is_state = not shapes.get(key) or ".OPTIMIZER_SLOT" in key
            if is_state or (name is None and variable.startswith("bert/")):
                continue
            if name in names.values():
                raise ValueError(f"it contains two variables {variable!r}")
            names[key] = name or key
    return names


def saved_model_config(directory: Path) -> dict[str, Any] | None:
    """Return an encoder's config by google-research's keys, with `model_type`."""
    # `None` if the SavedModel has no encoder of ALBERT or BERT.
    path, prefix = directory / SAVED_MODEL, find_checkpoint(directory)
    if prefix is None or not path.is_file():
        return None
    found = stored_tensors(prefix, reshaped=False)
    is_bert = f"{_BERT.format(0)}/{_BERT_PARTS[0]}" in found
    scope, parts = (
        (_BERT.format(0), _BERT_PARTS) if is_bert else (ALBERT_LAYER, _ALBERT_PARTS)
    )
    if _WORDS not in found or f"{scope}/{parts[0]}" not in found:
        return None
    with reading(f"{prefix}.index"):
        (hidden, heads, _), (inner,) = (
            found[f"{scope}/{part}"].shape for part in parts
        )
        sizes = {
            name: found[f"bert/embeddings/{name}_embeddings"].shape
            for name in ("word", "position", "token_type")
        }
        config = {
            "model_type": "bert" if is_bert else "albert",
            "vocab_size": sizes["word"][0],
            "embedding_size": sizes["word"][1],
            "hidden_size": hidden,
            "intermediate_size": inner,
            "num_attention_heads": heads,
            "max_position_embeddings": sizes["position"][0],
            "type_vocab_size": sizes["token_type"][0],
            "hidden_act": "gelu",
            # As in the published models.
            "hidden_dropout_prob": 0.1 * is_bert,
            "attention_probs_dropout_prob": 0.1 * is_bert,
        }
    layers = 0
    while f"{_BERT.format(layers)}/{_BERT_PARTS[0]}" in found:
        layers += 1
    if layers:
        return config | {"num_hidden_layers": layers}
    # Layers that share their weights are counted by their outputs.
    from tensorflow.core.protobuf import saved_model_pb2  # noqa: PLC0415  (slow to import)

    with reading(path):
        graph = saved_model_pb2.SavedModel.FromString(read_bytes(path, _MAX_BYTES))
        signatures = graph.meta_graphs[0].signature_def
        outputs = signatures["serving_default"].outputs.values()
        sequences = [each for each in outputs if len(each.tensor_shape.dim) == 3]
    # One output for each layer, and the last one again as the model's.
    if len(sequences) < 2:
        raise ValueError(
            f"{path} does not return the outputs of its layers, so that their number "
            "is unknown. Write an `albert_config.json` next to it."
        )
    return config | {"num_hidden_layers": len(sequences) - 1}


def saved_model_lowercases(directory: Path) -> bool | None:
    """Return whether a SavedModel says that texts are lowercased; `None` if not."""
    prefix = find_checkpoint(directory)
    if prefix is None or not (directory / SAVED_MODEL).is_file():
        return None
    found = open_weights(_index(prefix)).get(_LOWERCASES)
    return None if found is None or found.shape else bool(found.read())


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

    def __init__(
        self,
        key: str,
        name: str,
        weight_map: WeightMap,
        config: str,
        checkpoint: str,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(key, weight_map)
        self.name = name
        self._pattern, self._written = config, checkpoint
        self.keys = keys or {}

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
        is_bert = self.weight_map is ALBERT and has_bert_dials(backbone_of(model))
        return GOOGLE_BERT if is_bert else self

    def write(
        self, model: keras.Model, directory: Path, vocabulary: bytes | None
    ) -> None:
        model = merge_adapters(with_last_head(model))
        backbone = backbone_of(model)
        check_same(self.name, backbone, layer_norm_epsilon=_LAYER_NORM_EPSILON)
        check_groups(backbone.num_layers, backbone.num_groups, _LIBRARY)
        tensors = self.dump(model)
        config = backbone_config(backbone, _ACTIVATIONS, self.keys)
        del config["layer_norm_eps"]
        if self.keys is _BERT_KEYS:
            del config["inner_group_num"]
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
        raise ValueError(f"{directory} contains no checkpoint, `*.ckpt*.index`.")
    return prefix


def _outputs(found: dict[str, StoredTensor]) -> int:
    """Return the number of outputs of the last layer, which is (out, in)."""
    return found["output_weights"].shape[0] if "output_weights" in found else 1


GOOGLE_BERT = GoogleFormat(
    "google-bert",
    "google-research/bert",
    BERT,
    "bert_config.json",
    "bert_model.ckpt",
    keys=_BERT_KEYS,
)
GOOGLE = GoogleFormat(
    "google", _LIBRARY, ALBERT, "albert_config.json", "model.ckpt-best"
)
FIRST_ALBERT_ZH = GoogleFormat(
    "albert-zh",
    "albert_zh",
    ALBERT_ZH,
    "albert_config.json",
    "albert_model.ckpt",
    keys={"embedding_size": "hidden_size"},
)
