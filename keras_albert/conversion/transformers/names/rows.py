"""Rows of a weight table for layers that several architectures name alike."""

from collections.abc import Iterable

from keras_albert.conversion.tables.heads import Head
from keras_albert.conversion.tables.weight_table import (
    IDENTITY,
    TRANSPOSED,
    Layout,
    Row,
)

# Our layer and theirs.
Names = Iterable[tuple[str, str]]


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


def embedding_rows(scope: str) -> tuple[Row, ...]:
    """Return the rows of the embeddings, without their projection."""
    return (
        *(
            # KerasHub names the variable of position embeddings `embeddings`, too.
            Row(f"embedding/{ours}/embeddings", f"{scope}.{theirs}.weight")
            for ours, theirs in (
                ("token_embedding", "word_embeddings"),
                ("position_embedding", "position_embeddings"),
                ("segment_embedding", "token_type_embeddings"),
            )
        ),
        *layer_norm_rows("embedding/layer_norm", f"{scope}.LayerNorm"),
    )


def layer_rows(
    group: int, inner: int, scope: str, denses: Names, norms: Names
) -> list[Row]:
    """Return the rows of one block."""
    block = f"encoder/group_{group}_block_{inner}"
    rows: list[Row] = []
    for ours, theirs in denses:
        rows += dense_rows(f"{block}/{ours}", f"{scope}.{theirs}")
    for ours, theirs in norms:
        rows += layer_norm_rows(f"{block}/{ours}", f"{scope}.{theirs}")
    return rows


def masked_lm_rows(dense: str, layer_norm: str, bias: str) -> tuple[Row, ...]:
    """Return the rows of the head of a masked LM; its last layer is tied."""
    return (
        *dense_rows("masked_lm_head/transform", dense),
        *layer_norm_rows("masked_lm_head/layer_norm", layer_norm),
        Row("masked_lm_head/output_bias", bias),
    )


def classifier_heads(kind: str) -> tuple[Head, ...]:
    """Return the heads of one layer of an architecture: of texts, tokens, spans."""
    classifier = (dense_rows("logits", "classifier"),)
    return (
        Head("AlbertClassifier", f"{kind}ForSequenceClassification", classifier),
        Head(
            "AlbertTokenClassifier",
            f"{kind}ForTokenClassification",
            classifier,
            has_pooler=False,
        ),
        Head(
            "AlbertQuestionAnswerer",
            f"{kind}ForQuestionAnswering",
            (dense_rows("span_logits", "qa_outputs"),),
            has_pooler=False,
        ),
        Head(
            "AlbertMultipleChoice",
            f"{kind}ForMultipleChoice",
            (dense_rows("score", "classifier"),),
        ),
    )
