"""google-research/bert's names of weights, where they are not those of ALBERT."""

from types import SimpleNamespace

from keras_albert.conversion.google import names
from keras_albert.conversion.tables.weight_table import Row, paired_rows

# A factor of the first generation of albert_zh: there, the embeddings are the product
# of two matrices, to which positions and segments are added.
SECOND_FACTOR = "bert/embeddings/word_embeddings_2"

_LAYER_NAMES = (
    ("query", "attention/self/query"),
    ("key", "attention/self/key"),
    ("value", "attention/self/value"),
    ("attention_output", "attention/output/dense"),
    ("feedforward_intermediate", "intermediate/dense"),
    ("feedforward_output", "output/dense"),
)
_NORM_NAMES = (
    ("attention_layer_norm", "attention/output/LayerNorm"),
    ("feedforward_layer_norm", "output/LayerNorm"),
)


def block_rows(group: int, inner: int, num_heads: int) -> list[Row]:
    """Return the rows of one layer."""
    return _layer_rows(f"bert/encoder/layer_{group}", group)


def shared_block_rows(group: int, inner: int, num_heads: int) -> list[Row]:
    """Return the rows of the layer that the first generation of albert_zh shares."""
    return _layer_rows("bert/encoder/layer_shared", group)


def _layer_rows(theirs: str, group: int) -> list[Row]:
    ours = f"encoder/group_{group}_block_0"
    rows: list[Row] = []
    for layers, weights in (
        (_LAYER_NAMES, ("kernel", "bias")),
        (_NORM_NAMES, ("gamma", "beta")),
    ):
        for own, foreign in layers:
            rows += paired_rows(f"{ours}/{own}", f"{theirs}/{foreign}", weights)
    return rows


_SAME = {
    "EMBEDDING_ROWS": names.EMBEDDING_ROWS,
    "PROJECTION_ROWS": (),
    "POOLER_ROWS": names.POOLER_ROWS,
    "HEADS": names.HEADS,
    "HEAD_PREFIXES": names.HEAD_PREFIXES,
}
BERT = SimpleNamespace(block_rows=block_rows, **_SAME)
ALBERT_ZH = SimpleNamespace(block_rows=shared_block_rows, **_SAME)
