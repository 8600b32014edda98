"""transformers' names of DistilBERT's weights and settings.

A DistilBERT is a BERT without segments. Its pooler belongs to the heads, and has a
ReLU.
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

MODEL_TYPE = "distilbert"
BASE_CLASS = "DistilBertModel"

KEYS = {
    "hidden_size": "dim",
    "embedding_size": "dim",
    "intermediate_size": "hidden_dim",
    "num_hidden_layers": "n_layers",
    "num_hidden_groups": "n_layers",
    "num_attention_heads": "n_heads",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
    "hidden_act": "activation",
}
DEFAULTS = {
    "vocab_size": 30_522,
    "hidden_size": 768,
    "embedding_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 6,
    "num_hidden_groups": 6,
    "num_attention_heads": 12,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
}
UNUSED_KEYS = ("inner_group_num", "type_vocab_size", "layer_norm_eps")
DROPOUTS = {
    "AlbertClassifier": ("seq_classif_dropout", 0.2),
    "AlbertTokenClassifier": ("dropout", 0.1),
    "AlbertMultipleChoice": ("seq_classif_dropout", 0.2),
}
SPECIAL_IDS = {"pad_token_id": 0}
POOLER_ACTIVATION = "relu"

PREFIX = "distilbert."
TIED = {"vocab_projector.weight": "distilbert.embeddings.word_embeddings.weight"}

EMBEDDING_ROWS = embedding_rows("distilbert.embeddings")
# Never stored: there are no segments, so that their vectors are zeros.
SEGMENTS = "distilbert.embeddings.token_type_embeddings.weight"
PROJECTION_ROWS: tuple[Row, ...] = ()
POOLER_ROWS = dense_rows("pooler", "pre_classifier")

_LAYER_DENSES = (
    ("query", "attention.q_lin"),
    ("key", "attention.k_lin"),
    ("value", "attention.v_lin"),
    ("attention_output", "attention.out_lin"),
    ("feedforward_intermediate", "ffn.lin1"),
    ("feedforward_output", "ffn.lin2"),
)
_LAYER_NORMS = (
    ("attention_layer_norm", "sa_layer_norm"),
    ("feedforward_layer_norm", "output_layer_norm"),
)


def block_rows(group: int, inner: int, num_heads: int) -> list[Row]:
    """Return the rows of one layer."""
    del num_heads
    layer = f"distilbert.transformer.layer.{group}"
    return layer_rows(group, inner, layer, _LAYER_DENSES, _LAYER_NORMS)


HEADS = (
    Head("AlbertBackbone", "DistilBertModel", has_pooler=False),
    Head("AlbertTextEmbedder", "DistilBertModel", has_pooler=False),
    Head(
        "AlbertMaskedLM",
        "DistilBertForMaskedLM",
        (
            masked_lm_rows(
                "vocab_transform", "vocab_layer_norm", "vocab_projector.bias"
            ),
        ),
        has_pooler=False,
    ),
    *classifier_heads("DistilBert"),
)
HEAD_PREFIXES = (
    "vocab_transform.",
    "vocab_layer_norm.",
    "vocab_projector.",
    "pre_classifier.",
    "classifier.",
    "qa_outputs.",
)
