"""google-research/albert's names of ALBERT's weights."""

from keras_albert.conversion.tables.heads import Head
from keras_albert.conversion.tables.weight_table import (
    IDENTITY,
    TRANSPOSED,
    Row,
    paired_rows,
)

# The prefix of each name in a TF-Hub module.
MODULE_PREFIX = "module/"

# The last parts of the names of training state, which is stored beside the weights.
TRAINING_STATE = (
    "adam_m",
    "adam_v",
    "lamb_m",
    "lamb_v",
    "Adam",
    "Adam_1",
    "beta1_power",
    "beta2_power",
    "global_step",
)


def _dense(ours: str, theirs: str) -> tuple[Row, ...]:
    return paired_rows(ours, theirs, ("kernel", "bias"))


def _layer_norm(ours: str, theirs: str) -> tuple[Row, ...]:
    return paired_rows(ours, theirs, ("gamma", "beta"))


def _output(ours: str, scope: str) -> tuple[Row, ...]:
    """Return the rows of a last layer; only these are (out, in), as in PyTorch."""
    return (
        Row(f"{ours}/kernel", f"{scope}output_weights", TRANSPOSED),
        Row(f"{ours}/bias", f"{scope}output_bias", IDENTITY),
    )


EMBEDDING_ROWS = (
    *(
        Row(f"embedding/{ours}/embeddings", f"bert/embeddings/{theirs}")
        for ours, theirs in (
            ("token_embedding", "word_embeddings"),
            ("position_embedding", "position_embeddings"),
            ("segment_embedding", "token_type_embeddings"),
        )
    ),
    *_layer_norm("embedding/layer_norm", "bert/embeddings/LayerNorm"),
)
PROJECTION_ROWS = _dense(
    "embedding/projection", "bert/encoder/embedding_hidden_mapping_in"
)
POOLER_ROWS = _dense("pooler", "bert/pooler/dense")


def block_rows(group: int, inner: int, num_heads: int) -> list[Row]:
    """Return the rows of one block."""
    del num_heads
    ours = f"encoder/group_{group}_block_{inner}"
    theirs = f"bert/encoder/transformer/group_{group}/inner_group_{inner}"
    rows: list[Row] = []
    for our_layer, their_layer in (
        ("query", "attention_1/self/query"),
        ("key", "attention_1/self/key"),
        ("value", "attention_1/self/value"),
        ("attention_output", "attention_1/output/dense"),
        ("feedforward_intermediate", "ffn_1/intermediate/dense"),
        ("feedforward_output", "ffn_1/intermediate/output/dense"),
    ):
        rows += _dense(f"{ours}/{our_layer}", f"{theirs}/{their_layer}")
    rows += _layer_norm(f"{ours}/attention_layer_norm", f"{theirs}/LayerNorm")
    rows += _layer_norm(f"{ours}/feedforward_layer_norm", f"{theirs}/LayerNorm_1")
    return rows


_PREDICTIONS = (
    *_dense("masked_lm_head/transform", "cls/predictions/transform/dense"),
    *_layer_norm("masked_lm_head/layer_norm", "cls/predictions/transform/LayerNorm"),
    Row("masked_lm_head/output_bias", "cls/predictions/output_bias"),
)
_SENTENCE_ORDER = _output("sentence_order", "cls/seq_relationship/")
_CONDITIONAL_SPANS = (
    *_dense("span_head/start", "start_logits/dense"),
    *_dense("span_head/end_dense", "end_logits/dense_0"),
    *_layer_norm("span_head/end_layer_norm", "end_logits/LayerNorm"),
    *_dense("span_head/end", "end_logits/dense_1"),
    *_dense("span_head/answerability_dense", "answer_class/dense_0"),
    Row("span_head/answerability/kernel", "answer_class/dense_1/kernel"),
)

# In the order in which a checkpoint of unknown kind is checked.
HEADS = (
    Head("AlbertPretrainer", "pretraining", (_PREDICTIONS, _SENTENCE_ORDER)),
    Head("AlbertMaskedLM", "masked LM", (_PREDICTIONS,)),
    Head("AlbertQuestionAnswerer", "SQuAD v1", (_output("span_logits", "cls/squad/"),)),
    Head("AlbertQuestionAnswerer", "SQuAD v2", (_CONDITIONAL_SPANS,)),
    Head("AlbertClassifier", "GLUE", (_output("logits", ""),)),
    Head("AlbertMultipleChoice", "RACE", (_output("score", ""),)),
    Head("AlbertBackbone", "no head"),
    Head("AlbertTextEmbedder", "no head"),
)
HEAD_PREFIXES = (
    "cls/predictions/",
    "cls/seq_relationship/",
    "cls/squad/",
    "start_logits/",
    "end_logits/",
    "answer_class/",
    "output_weights",
    "output_bias",
)
