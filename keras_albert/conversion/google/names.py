"""google-research's names of the weights of ALBERT and BERT."""

from dataclasses import replace

from keras_albert.conversion.weight_map import (
    TRANSPOSED,
    Head,
    Mappings,
    WeightMap,
    WeightMapping,
    name_blocks,
    pair,
)

# The prefix of each name in a TF-Hub module.
MODULE_PREFIX = "module/"

# The last parts of the names of training state, which is stored beside the weights.
TRAINING_STATE = (
    *("adam_m", "adam_v", "lamb_m", "lamb_v", "Adam", "Adam_1"),
    *("beta1_power", "beta2_power", "global_step"),
)

# A factor of the first generation of albert_zh: there, the embeddings are the product
# of two matrices, to which positions and segments are added.
SECOND_FACTOR = "bert/embeddings/word_embeddings_2"


def _dense(ours: str, theirs: str) -> Mappings:
    return pair(ours, theirs, ("kernel", "bias"))


def _norm(ours: str, theirs: str) -> Mappings:
    return pair(ours, theirs, ("gamma", "beta"))


def _output(ours: str, scope: str) -> Mappings:
    """Map a last layer; only these are (out, in), as in PyTorch."""
    return (
        WeightMapping(f"{ours}/kernel", f"{scope}output_weights", TRANSPOSED),
        WeightMapping(f"{ours}/bias", f"{scope}output_bias"),
    )


_PREDICTIONS = (
    *_dense("masked_lm_head/transform", "cls/predictions/transform/dense"),
    *_norm("masked_lm_head/layer_norm", "cls/predictions/transform/LayerNorm"),
    WeightMapping("masked_lm_head/output_bias", "cls/predictions/output_bias"),
)
_SENTENCE_ORDER = _output("sentence_order", "cls/seq_relationship/")
_SPANS = _output("span_logits", "cls/squad/")
_CONDITIONAL_SPANS = (
    *_dense("span_head/start", "start_logits/dense"),
    *_dense("span_head/end_dense", "end_logits/dense_0"),
    *_norm("span_head/end_layer_norm", "end_logits/LayerNorm"),
    *_dense("span_head/end", "end_logits/dense_1"),
    *_dense("span_head/answerability_dense", "answer_class/dense_0"),
    WeightMapping("span_head/answerability/kernel", "answer_class/dense_1/kernel"),
)

# The names in a block: those of `DENSE_LAYERS`, and of the normalizations.
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
    embeddings=(
        *(
            WeightMapping(f"embedding/{ours}/embeddings", f"bert/embeddings/{theirs}")
            for ours, theirs in (
                ("token_embedding", "word_embeddings"),
                ("position_embedding", "position_embeddings"),
                ("segment_embedding", "token_type_embeddings"),
            )
        ),
        *_norm("embedding/layer_norm", "bert/embeddings/LayerNorm"),
    ),
    projection=_dense(
        "embedding/projection", "bert/encoder/embedding_hidden_mapping_in"
    ),
    pooler=_dense("pooler", "bert/pooler/dense"),
    block=name_blocks(
        "bert/encoder/transformer/group_{group}/inner_group_{inner}/",
        *ALBERT_LAYERS,
        _dense,
        _norm,
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
    block=name_blocks("bert/encoder/layer_{group}/", *BERT_LAYERS, _dense, _norm),
)
# The first generation, whose layers share one.
ALBERT_ZH = replace(
    BERT, block=name_blocks("bert/encoder/layer_shared/", *BERT_LAYERS, _dense, _norm)
)
