"""KerasHub's names of the weights of ALBERT and BERT: the paths of its variables."""

from types import SimpleNamespace

from keras_albert.conversion.tables.heads import Head
from keras_albert.conversion.tables.weight_table import (
    Row,
    paired_rows,
    split_first,
    split_last,
)

_DENSE = ("kernel", "bias")
_NORM = ("gamma", "beta")


EMBEDDING_ROWS = (
    *paired_rows("embedding/token_embedding", "token_embedding", ("embeddings",)),
    *paired_rows("embedding/position_embedding", "position_embedding", ("embeddings",)),
    *paired_rows("embedding/segment_embedding", "segment_embedding", ("embeddings",)),
    *paired_rows("embedding/layer_norm", "embeddings_layer_norm", _NORM),
)
PROJECTION_ROWS = paired_rows("embedding/projection", "embedding_projection", _DENSE)
POOLER_ROWS = paired_rows("pooler", "pooled_dense", _DENSE)


def block_rows(group: int, inner: int, num_heads: int) -> list[Row]:
    """Return the rows of one block."""
    theirs = f"group_{group}_inner_layer_{inner}/"
    return _layer_rows(group, inner, num_heads, theirs)


def _layer_rows(group: int, inner: int, num_heads: int, theirs: str) -> list[Row]:
    ours = f"encoder/group_{group}_block_{inner}/"
    attention = theirs + "self_attention_layer/"
    # KerasHub has a separate axis for heads; here they are side by side in one matrix.
    into_heads, from_heads = split_last(num_heads), split_first(num_heads)
    rows = [
        Row(f"{ours}{name}/{weight}", f"{attention}{name}/{weight}", into_heads)
        for name in ("query", "key", "value")
        for weight in _DENSE
    ]
    output = "attention_output/"
    rows += [
        Row(f"{ours}{output}kernel", f"{attention}{output}kernel", from_heads),
        Row(f"{ours}{output}bias", f"{attention}{output}bias"),
    ]
    for our_layer, their_layer, weights in (
        ("attention_layer_norm", "self_attention_layer_norm", _NORM),
        ("feedforward_layer_norm", "feedforward_layer_norm", _NORM),
        ("feedforward_intermediate", "feedforward_intermediate_dense", _DENSE),
        ("feedforward_output", "feedforward_output_dense", _DENSE),
    ):
        rows += paired_rows(f"{ours}{our_layer}", f"{theirs}{their_layer}", weights)
    return rows


_LOGITS = (paired_rows("logits", "logits", _DENSE),)
_PREDICTIONS = (
    (
        *paired_rows("masked_lm_head/transform", "mlm_head/intermediate_dense", _DENSE),
        *paired_rows(
            "masked_lm_head/layer_norm", "mlm_head/intermediate_layer_norm", _NORM
        ),
        Row("masked_lm_head/output_bias", "mlm_head/output_bias"),
    ),
)


def _heads(kind: str) -> tuple[Head, ...]:
    return (
        Head("AlbertBackbone", f"{kind}Backbone"),
        Head("AlbertTextEmbedder", f"{kind}Backbone"),
        Head("AlbertClassifier", f"{kind}TextClassifier", _LOGITS),
        Head("AlbertMaskedLM", f"{kind}MaskedLM", _PREDICTIONS),
    )


HEADS = _heads("Albert")
HEAD_PREFIXES = ("logits/", "mlm_head/")

BERT = SimpleNamespace(
    EMBEDDING_ROWS=EMBEDDING_ROWS,
    PROJECTION_ROWS=(),
    POOLER_ROWS=POOLER_ROWS,
    block_rows=lambda group, inner, num_heads: _layer_rows(
        group, inner, num_heads, f"transformer_layer_{group}/"
    ),
    HEADS=_heads("Bert"),
    HEAD_PREFIXES=HEAD_PREFIXES,
    # The erf form, although the encoder has the tanh form.
    HEAD_ACTIVATION="gelu",
)
