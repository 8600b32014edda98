"""transformers' names of ELECTRA's weights and settings.

An ELECTRA is an ALBERT whose layers are groups of their own. Its pooler belongs to the
heads, and has a GELU.
"""

from keras_albert.conversion.tables.heads import Head
from keras_albert.conversion.tables.weight_table import Row
from keras_albert.conversion.transformers.names.bert import LAYER_DENSES, LAYER_NORMS
from keras_albert.conversion.transformers.names.rows import (
    classifier_heads,
    dense_rows,
    embedding_rows,
    layer_rows,
    masked_lm_rows,
)

MODEL_TYPE = "electra"
BASE_CLASS = "ElectraModel"

KEYS = {"num_hidden_groups": "num_hidden_layers"}
DEFAULTS = {
    "vocab_size": 30_522,
    "num_attention_heads": 4,
    "num_hidden_groups": 12,
    "hidden_size": 256,
    "intermediate_size": 1024,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
}
UNUSED_KEYS = ("inner_group_num",)
DROPOUTS = {
    "AlbertClassifier": ("classifier_dropout", None),
    "AlbertTokenClassifier": ("classifier_dropout", None),
    "AlbertMultipleChoice": ("summary_last_dropout", 0.1),
}
SPECIAL_IDS = {"pad_token_id": 0}
POOLER_ACTIVATION = "gelu"

# Whatever the encoder's.
HEAD_ACTIVATION = "gelu"

# Settings of the pooler of a multiple choice, with the only values that are read.
SUMMARY = {
    "summary_type": "first",
    "summary_use_proj": True,
    "summary_activation": "gelu",
}

PREFIX = "electra."
TIED = {"generator_lm_head.weight": "electra.embeddings.word_embeddings.weight"}

EMBEDDING_ROWS = embedding_rows("electra.embeddings")
PROJECTION_ROWS = dense_rows("embedding/projection", "electra.embeddings_project")
POOLER_ROWS = dense_rows("pooler", "classifier.dense")


def block_rows(group: int, inner: int, num_heads: int) -> list[Row]:
    """Return the rows of one layer."""
    del num_heads
    layer = f"electra.encoder.layer.{group}"
    return layer_rows(group, inner, layer, LAYER_DENSES, LAYER_NORMS)


HEADS = (
    Head("AlbertBackbone", "ElectraModel", has_pooler=False),
    Head("AlbertTextEmbedder", "ElectraModel", has_pooler=False),
    Head(
        "AlbertMaskedLM",
        "ElectraForMaskedLM",
        (
            masked_lm_rows(
                "generator_predictions.dense",
                "generator_predictions.LayerNorm",
                "generator_lm_head.bias",
            ),
        ),
        has_pooler=False,
    ),
    Head(
        "AlbertClassifier",
        "ElectraForSequenceClassification",
        (dense_rows("logits", "classifier.out_proj"),),
    ),
    # Those of tokens and of spans.
    *classifier_heads("Electra")[1:3],
    Head(
        "AlbertMultipleChoice",
        "ElectraForMultipleChoice",
        (dense_rows("score", "classifier"),),
        pooler_rows=dense_rows("pooler", "sequence_summary.summary"),
    ),
)
HEAD_PREFIXES = (
    "generator_predictions.",
    "generator_lm_head.",
    # That of pretraining, which tells replaced tokens, has no task here.
    "discriminator_predictions.",
    "classifier.dense.",
    "classifier.out_proj.",
    "classifier.weight",
    "classifier.bias",
    "sequence_summary.",
    "qa_outputs.",
)
