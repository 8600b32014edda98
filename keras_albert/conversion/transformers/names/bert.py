"""transformers' names of BERT's weights and settings.

A BERT is an ALBERT whose embeddings are as wide as the encoder, and whose layers are
groups of their own.
"""

from keras_albert.conversion.tables.heads import Head
from keras_albert.conversion.tables.weight_table import Row
from keras_albert.conversion.transformers.names.rows import (
    classifier_heads,
    dense_rows,
    embedding_rows,
    layer_rows,
    masked_lm_rows,
)

MODEL_TYPE = "bert"
BASE_CLASS = "BertModel"

KEYS = {
    "embedding_size": "hidden_size",
    "num_hidden_groups": "num_hidden_layers",
}
DEFAULTS = {
    "vocab_size": 30_522,
    "num_attention_heads": 12,
    "num_hidden_groups": 12,
    "hidden_size": 768,
    "embedding_size": 768,
    "intermediate_size": 3072,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
}
UNUSED_KEYS = ("inner_group_num",)
DROPOUTS = dict.fromkeys(
    ("AlbertClassifier", "AlbertTokenClassifier", "AlbertMultipleChoice"),
    ("classifier_dropout", None),
)
SPECIAL_IDS = {"pad_token_id": 0}
POOLER_ACTIVATION = "tanh"

PREFIX = "bert."
TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}

EMBEDDING_ROWS = embedding_rows("bert.embeddings")
PROJECTION_ROWS: tuple[Row, ...] = ()
POOLER_ROWS = dense_rows("pooler", "bert.pooler.dense")

LAYER_DENSES = (
    ("query", "attention.self.query"),
    ("key", "attention.self.key"),
    ("value", "attention.self.value"),
    ("attention_output", "attention.output.dense"),
    ("feedforward_intermediate", "intermediate.dense"),
    ("feedforward_output", "output.dense"),
)
LAYER_NORMS = (
    ("attention_layer_norm", "attention.output.LayerNorm"),
    ("feedforward_layer_norm", "output.LayerNorm"),
)


def block_rows(group: int, inner: int, num_heads: int) -> list[Row]:
    """Return the rows of one layer."""
    del num_heads
    layer = f"bert.encoder.layer.{group}"
    return layer_rows(group, inner, layer, LAYER_DENSES, LAYER_NORMS)


_PREDICTIONS = masked_lm_rows(
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.bias",
)
# Trained to tell the next sentence from any other, ALBERT's from one in wrong order.
_NEXT_SENTENCE = dense_rows("sentence_order", "cls.seq_relationship")

HEADS = (
    Head("AlbertBackbone", "BertModel"),
    Head("AlbertTextEmbedder", "BertModel"),
    Head("AlbertPretrainer", "BertForPreTraining", (_PREDICTIONS, _NEXT_SENTENCE)),
    Head("AlbertMaskedLM", "BertForMaskedLM", (_PREDICTIONS,), has_pooler=False),
    *classifier_heads("Bert"),
)
HEAD_PREFIXES = (
    "cls.predictions.",
    "cls.seq_relationship.",
    "classifier.",
    "qa_outputs.",
)
