"""transformers' names of ALBERT's weights."""

from keras_albert.conversion.tables.heads import Head
from keras_albert.conversion.tables.weight_table import (
    IDENTITY,
    TRANSPOSED,
    Layout,
    Row,
)

# The prefix of the backbone's names in all ALBERT classes but `AlbertModel`.
PREFIX = "albert."

# Buffers that files written by transformers 4 may contain; they are no weights.
BUFFERS = (
    "albert.embeddings.position_ids",
    "albert.embeddings.token_type_ids",
)

# Second names of tied tensors, which a file may contain as well, or instead.
TIED = {
    "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
}


def dense_rows(ours: str, theirs: str) -> tuple[Row, ...]:
    """Return the rows of a dense layer."""
    return _pair(ours, theirs, ("kernel", "bias"), TRANSPOSED)


def layer_norm_rows(ours: str, theirs: str) -> tuple[Row, ...]:
    """Return the rows of a layer normalization."""
    return _pair(ours, theirs, ("gamma", "beta"), IDENTITY)


def _pair(
    ours: str, theirs: str, names: tuple[str, str], layout: Layout
) -> tuple[Row, ...]:
    weight, bias = names
    return (
        Row(f"{ours}/{weight}", f"{theirs}.weight", layout),
        Row(f"{ours}/{bias}", f"{theirs}.bias"),
    )


EMBEDDING_ROWS = (
    *(
        # KerasHub names the variable of position embeddings `embeddings`, too.
        Row(f"embedding/{ours}/embeddings", f"albert.embeddings.{theirs}.weight")
        for ours, theirs in (
            ("token_embedding", "word_embeddings"),
            ("position_embedding", "position_embeddings"),
            ("segment_embedding", "token_type_embeddings"),
        )
    ),
    *layer_norm_rows("embedding/layer_norm", "albert.embeddings.LayerNorm"),
)
PROJECTION_ROWS = dense_rows(
    "embedding/projection", "albert.encoder.embedding_hidden_mapping_in"
)
POOLER_ROWS = dense_rows("pooler", "albert.pooler")

_BLOCK_DENSES = (
    ("query", "attention.query"),
    ("key", "attention.key"),
    ("value", "attention.value"),
    ("attention_output", "attention.dense"),
    ("feedforward_intermediate", "ffn"),
    ("feedforward_output", "ffn_output"),
)
_BLOCK_NORMS = (
    ("attention_layer_norm", "attention.LayerNorm"),
    ("feedforward_layer_norm", "full_layer_layer_norm"),
)


def block_rows(group: int, inner: int, num_heads: int) -> list[Row]:
    """Return the rows of one block."""
    del num_heads
    block = f"encoder/group_{group}_block_{inner}"
    layer = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"
    rows: list[Row] = []
    for ours, theirs in _BLOCK_DENSES:
        rows += dense_rows(f"{block}/{ours}", f"{layer}.{theirs}")
    for ours, theirs in _BLOCK_NORMS:
        rows += layer_norm_rows(f"{block}/{ours}", f"{layer}.{theirs}")
    return rows


_PREDICTIONS = (
    *dense_rows("masked_lm_head/transform", "predictions.dense"),
    *layer_norm_rows("masked_lm_head/layer_norm", "predictions.LayerNorm"),
    Row("masked_lm_head/output_bias", "predictions.bias"),
)
_SENTENCE_ORDER = dense_rows("sentence_order", "sop_classifier.classifier")

HEADS = (
    Head("AlbertBackbone", "AlbertModel"),
    Head("AlbertTextEmbedder", "AlbertModel"),
    Head("AlbertPretrainer", "AlbertForPreTraining", (_PREDICTIONS, _SENTENCE_ORDER)),
    Head("AlbertMaskedLM", "AlbertForMaskedLM", (_PREDICTIONS,), has_pooler=False),
    Head(
        "AlbertClassifier",
        "AlbertForSequenceClassification",
        (dense_rows("logits", "classifier"),),
    ),
    Head(
        "AlbertTokenClassifier",
        "AlbertForTokenClassification",
        (dense_rows("logits", "classifier"),),
        has_pooler=False,
    ),
    Head(
        "AlbertQuestionAnswerer",
        "AlbertForQuestionAnswering",
        (dense_rows("span_logits", "qa_outputs"),),
        has_pooler=False,
    ),
    Head(
        "AlbertMultipleChoice",
        "AlbertForMultipleChoice",
        (dense_rows("score", "classifier"),),
    ),
)
HEAD_PREFIXES = ("predictions.", "sop_classifier.", "classifier.", "qa_outputs.")
