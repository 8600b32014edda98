"""google-research's names of weights, and Model Garden's names and shapes.

Source: `tf1_bert_checkpoint_converter_lib.py` and
`tf2_albert_encoder_checkpoint_converter.py` of tf-models-official.
"""

import re
from dataclasses import replace
from itertools import chain

from keras_albert.checkpoints.weight_map import (
    KERAS_NAMING,
    TRANSPOSED,
    Head,
    Mappings,
    WeightMap,
    WeightMapping,
)
from keras_albert.presets.weight_files import Shape

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
