"""google-research's names of weights, and Model Garden's names, shapes and objects.

Source: `tf1_bert_checkpoint_converter_lib.py` and
`tf2_albert_encoder_checkpoint_converter.py` of tf-models-official.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_albert.checkpoints.weight_map import (
    KERAS_NAMING,
    TRANSPOSED,
    Head,
    Mappings,
    WeightMap,
    WeightMapping,
)
from keras_albert.utils.environment import import_package

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


Array = npt.NDArray[Any]
Shape = tuple[int, ...]

ALBERT_LAYER = "bert/encoder/transformer/group_0/inner_group_0"


class _Names(NamedTuple):
    """A layer: Model Garden's variables and objects, and google-research's names."""

    variables: str
    objects: str
    albert: str
    bert: str


_IN_ENCODER = (
    "word_embeddings embedding_layer embeddings/word_embeddings",
    "position_embedding position_embedding_layer embeddings/position_embeddings",
    "type_embeddings type_embedding_layer embeddings/token_type_embeddings",
    "embeddings/layer_norm embedding_norm_layer embeddings/LayerNorm",
    "embedding_projection embedding_projection encoder/embedding_hidden_mapping_in",
    "pooler_transform pooler_layer pooler/dense",
)
_IN_HEAD = (
    "masked_lm/dense cls/predictions/transform/dense",
    "masked_lm/layer_norm cls/predictions/transform/LayerNorm",
    "masked_lm cls/predictions/output_bias",
)
_NAMES = [
    _Names(variables, f"encoder/_{objects}", f"bert/{name}", f"bert/{name}")
    for variables, objects, name in map(str.split, _IN_ENCODER)
]
_NAMES += [
    _Names(f"bert/{name}", objects, name, name)
    for objects, name in map(str.split, _IN_HEAD)
]
# Where google-research names the variable itself.
_ALONE = ("_embeddings", "output_bias")

# In a layer from the root, in the order of google-research's.
_IN_LAYER = [
    _Names(*theirs, albert, bert)
    for theirs, albert, bert in zip(
        (
            ("self_attention/query", "_attention_layer/_query_dense"),
            ("self_attention/key", "_attention_layer/_key_dense"),
            ("self_attention/value", "_attention_layer/_value_dense"),
            ("self_attention/attention_output", "_attention_layer/_output_dense"),
            ("intermediate", "_intermediate_dense"),
            ("output", "_output_dense"),
            ("self_attention_layer_norm", "_attention_layer_norm"),
            ("output_layer_norm", "_output_layer_norm"),
        ),
        chain(*ALBERT_LAYERS),
        chain(*BERT_LAYERS),
        strict=True,
    )
]
# The layers of an encoder in the order in which a functional model numbers them.
_LAYERS = "_transformer_layers"
_ENCODER = [
    row.objects.split("/")[1] for row in _NAMES if row.objects[:8] == "encoder/"
]
_ENCODER.insert(-1, _LAYERS)

_LAYER = re.compile(r"(?:.+/)?transformer/(layer_\d+/)?(.+)/(\w+)")
_GOOGLE_LAYER = re.compile(rf"(?:bert/encoder/layer_(\d+)|{ALBERT_LAYER})/(.+)/(\w+)")


def import_tensorflow() -> Any:
    """Return the package, which is needed on any Keras backend."""
    what = "A checkpoint of google-research/albert"
    return import_package(what, "tensorflow", "tensorflow")


def google_name(variable: str) -> str | None:
    """Return google-research's name of a variable; `None` if it has none."""
    if found := _LAYER.fullmatch(variable):
        for row in _IN_LAYER:
            if row.variables == found[2] and found[1] is None:
                return f"{ALBERT_LAYER}/{row.albert}/{found[3]}"
            if row.variables == found[2]:
                return f"bert/encoder/{found[1]}{row.bert}/{found[3]}"
    for row in _NAMES:
        # A layer has a scope of its own, a functional model has none.
        if found := re.fullmatch(rf"(?:.+/)?{row.variables}/(\w+)", variable):
            return row.bert if row.bert.endswith(_ALONE) else f"{row.bert}/{found[1]}"
    return None


def _garden_names(name: str) -> tuple[str, str]:
    """Return a weight's variable and its objects from the root; see `google_name`."""
    if found := _GOOGLE_LAYER.fullmatch(name):
        number, part, kind = found.groups()
        scope = "transformer" if number is None else f"transformer/layer_{number}"
        row = next(row for row in _IN_LAYER if part in row[2:])
        objects = f"encoder/{_LAYERS}/{number or 0}/{row.objects}/{kind}"
        return f"{scope}/{row.variables}/{kind}", objects
    row = next(row for row in _NAMES if f"{name}/".startswith(f"{row.bert}/"))
    kind = name.removeprefix(row.bert).removeprefix("/")
    kind = kind or ("bias" if name.endswith("bias") else "embeddings")
    return f"{row.variables}/{kind}", f"{row.objects}/{kind}"


def garden_variables(tensors: Mapping[str, Array], num_heads: int) -> dict[str, Any]:
    """Return Model Garden's variables of tensors with google-research's names."""
    tf, variables = import_tensorflow(), {}
    for name, tensor in tensors.items():
        variable, shape = _garden_names(name)[0], tensor.shape
        if variable.endswith("self_attention/attention_output/kernel"):
            shape = (num_heads, -1, *shape[1:])
        elif "/self_attention/" in variable and "attention_output" not in variable:
            shape = (*shape[:-1], num_heads, -1)
        variables[name] = tf.Variable(np.reshape(tensor, shape), name=variable)
    return variables


def garden_objects(variables: Mapping[str, Any]) -> Any:
    """Return the checkpoint of an encoder, and of a masked LM's head if there is one.

    `BertEncoderV2` finds its layers by attributes, functional encoders by numbers.
    """
    tf = import_tensorflow()
    root = tf.train.Checkpoint()
    for name, variable in variables.items():
        *path, last = _garden_names(name)[1].split("/")
        parent = root
        for part in path:
            if not hasattr(parent, part):
                setattr(parent, part, tf.Module())
            parent = getattr(parent, part)
        setattr(parent, last, variable)
    layers = [getattr(root.encoder, name, None) for name in _ENCODER]
    blocks = getattr(root.encoder, _LAYERS)
    place = _ENCODER.index(_LAYERS)
    numbers = sorted(int(name) for name in vars(blocks) if name.isdigit())
    layers[place : place + 1] = [getattr(blocks, str(number)) for number in numbers]
    for number, layer in enumerate(filter(None, layers)):
        setattr(root.encoder, f"layer_with_weights-{number}", layer)
    return root


def google_shape(name: str, shape: Shape) -> Shape:
    """Return a weight's shape in google-research, where heads share an axis."""
    if name.endswith("/kernel") and len(shape) == 3:
        first, heads, last = shape
        is_output = name.endswith("output/dense/kernel")
        return (first * heads, last) if is_output else (first, heads * last)
    if name.endswith("/bias") and len(shape) == 2:
        return (shape[0] * shape[1],)
    return shape
