"""Similarities of pairs of vectors, for the losses of the text embedder."""

from typing import Any

from keras import ops

from keras_albert.types import Tensor

# The score of pairs that are not compared: the probability is zero.
_NEVER = -1e9


def check_pairs(rows: Any) -> None:
    """Raise if an array of vectors, or of ids, is not one of pairs."""
    if len(rows.shape) != 3 or rows.shape[1] not in (2, None):
        msg = (
            "The embedder is trained on pairs of texts. Pass them as one argument, "
            f"`x=(first, second)`. Received an array of shape {rows.shape}"
        )
        raise ValueError(msg)


def cosine_scores(vectors: Tensor) -> Tensor:
    """Compare the two texts of each pair.

    `vectors` are `(pairs, 2, width)`, the scores `(pairs, 1)`.
    """
    vectors = ops.normalize(vectors, axis=-1)
    product = ops.multiply(vectors[:, 0], vectors[:, 1])
    return ops.sum(product, axis=-1, keepdims=True)


def contrastive_scores(vectors: Tensor, token_ids: Tensor) -> Tensor:
    """Compare the first text of each pair with the second texts of all pairs.

    Pairs with a text in common are not wrong answers to each other. Scores are `(pairs,
    pairs)`, very low for these.
    """
    vectors = ops.normalize(vectors, axis=-1)
    scores = ops.matmul(vectors[:, 0], ops.transpose(vectors[:, 1]))
    numbers = ops.arange(ops.shape(vectors)[0])
    is_other = ops.not_equal(ops.expand_dims(numbers, 0), ops.expand_dims(numbers, 1))
    is_equal = ops.equal(ops.expand_dims(token_ids, 0), ops.expand_dims(token_ids, 1))
    has_equal = ops.any(ops.all(is_equal, axis=-1), axis=-1)
    return ops.where(ops.logical_and(is_other, has_equal), _NEVER, scores)
