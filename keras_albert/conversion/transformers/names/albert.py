"""transformers' names of ALBERT's weights and settings."""

from keras_albert.conversion.tables.heads import Head
from keras_albert.conversion.tables.weight_table import Row
from keras_albert.conversion.transformers.names.rows import (
    classifier_heads,
    dense_rows,
    embedding_rows,
    layer_rows,
    masked_lm_rows,
)

MODEL_TYPE = "albert"
BASE_CLASS = "AlbertModel"

# The settings' own keys and defaults, where they are not ALBERT's.
KEYS: dict[str, str] = {}
DEFAULTS: dict[str, object] = {}

# Keys that its config lacks.
UNUSED_KEYS: tuple[str, ...] = ()

# The key of a head's dropout and its default; `None` is the rate of the encoder.
DROPOUTS = dict.fromkeys(
    ("AlbertClassifier", "AlbertTokenClassifier", "AlbertMultipleChoice"),
    ("classifier_dropout_prob", 0.1),
)
SPECIAL_IDS = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
POOLER_ACTIVATION = "tanh"

# The prefix of the backbone's names in all classes but the base class.
PREFIX = "albert."

# Second names of tied tensors, which a file may contain as well, or instead.
TIED = {
    "predictions.decoder.weight": "albert.embeddings.word_embeddings.weight",
    "predictions.decoder.bias": "predictions.bias",
}

EMBEDDING_ROWS = embedding_rows("albert.embeddings")
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
    layer = f"albert.encoder.albert_layer_groups.{group}.albert_layers.{inner}"
    return layer_rows(group, inner, layer, _BLOCK_DENSES, _BLOCK_NORMS)


_PREDICTIONS = masked_lm_rows(
    "predictions.dense", "predictions.LayerNorm", "predictions.bias"
)
_SENTENCE_ORDER = dense_rows("sentence_order", "sop_classifier.classifier")

HEADS = (
    Head("AlbertBackbone", "AlbertModel"),
    Head("AlbertTextEmbedder", "AlbertModel"),
    Head("AlbertPretrainer", "AlbertForPreTraining", (_PREDICTIONS, _SENTENCE_ORDER)),
    Head("AlbertMaskedLM", "AlbertForMaskedLM", (_PREDICTIONS,), has_pooler=False),
    *classifier_heads("Albert"),
)
HEAD_PREFIXES = ("predictions.", "sop_classifier.", "classifier.", "qa_outputs.")
