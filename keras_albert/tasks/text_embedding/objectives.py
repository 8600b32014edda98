"""The objectives of embedders: cosines of pairs, or to find a text in a batch."""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_albert.types import Tensor
from keras_albert.utils.arguments import MAX_TOKENS

# The score of texts that are not compared: the probability is zero.
_NEVER = -1e9

# Odd numbers, two for each place of a row; see `_fingerprints`.
_FACTORS = np.random.default_rng(0).integers(-(2**30), 2**30, (MAX_TOKENS, 2)) * 2 + 1


def check_examples(rows: Any, objective: str) -> None:
    """Raise if an array of vectors, or of ids, has too few or too many texts a row."""
    count = rows.shape[1] if len(rows.shape) == 3 else 1
    is_pair = count in (2, None)
    if is_pair or (count > 2 and objective == "contrastive"):
        return
    also = ", or with texts that are wrong answers, `x=(first, second, wrong, ...)`"
    raise ValueError(
        "The embedder is trained on pairs of texts. Pass them as one argument, "
        f"`x=(first, second)`{also if objective == 'contrastive' else ''}. Received an "
        f"array of shape {rows.shape}"
    )


def cosine_scores(vectors: Tensor) -> Tensor:
    """Return the cosines `(pairs, 1)` of `vectors` `(pairs, 2, width)`."""
    vectors = ops.normalize(vectors, axis=-1)
    product = ops.multiply(vectors[:, 0], vectors[:, 1])
    return ops.sum(product, axis=-1, keepdims=True)


def contrastive_scores(
    vectors: Tensor, token_ids: Tensor, guide: Tensor | None = None
) -> Tensor:
    """Compare each first text with all others of a batch; its own second is `row`."""
    # `vectors` and `guide` are `(examples, texts, width)`. The columns are all second
    # texts, then all third ones, ...; and with a guide also all first texts, and all
    # second texts compared with each other, as in GISTEmbed.
    first, others = _split(ops.normalize(vectors, axis=-1))
    count, columns = ops.shape(first)[0], ops.arange(ops.shape(others)[0])
    own = ops.equal(ops.expand_dims(ops.arange(count), 1), columns)
    right = ops.logical_and(
        _right_answers(token_ids, columns, count), ops.logical_not(own)
    )
    scores = ops.where(right, _NEVER, _products(first, others))
    if guide is None:
        return scores
    guide_first, guide_others = _split(ops.normalize(guide, axis=-1))
    second, guide_second = others[:count], guide_others[:count]
    limit = ops.sum(guide_first * guide_second, axis=-1, keepdims=True)
    false = ops.logical_and(
        _products(guide_first, guide_others) > limit, ops.logical_not(own)
    )
    parts = [ops.where(false, _NEVER, scores)]
    for texts, guided in ((first, guide_first), (second, guide_second)):
        false = _products(guided, guided) > limit
        parts.append(ops.where(false, _NEVER, _products(texts, texts)))
    return ops.concatenate(parts, axis=1)


def _split(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first texts, and all others, column by column."""
    others = ops.transpose(vectors[:, 1:], (1, 0, 2))
    return vectors[:, 0], ops.reshape(others, (-1, ops.shape(vectors)[-1]))


def _products(first: Tensor, second: Tensor) -> Tensor:
    return ops.matmul(first, ops.transpose(second))


def _right_answers(token_ids: Tensor, columns: Tensor, count: Any) -> Tensor:
    """Return which texts answer a row: those equal to its answer, or to its question's.

    The result is `(examples, columns)`.
    """
    first, others = _split(_fingerprints(token_ids))
    second = others[:count]
    equals_answer = _are_equal(second, others)
    # The question that each text answers, unless it is a wrong answer.
    same_question = ops.take(_are_equal(first, first), columns % count, axis=1)
    answers_it = ops.logical_and(same_question, columns < count)
    return ops.logical_or(equals_answer, answers_it)


def _are_equal(first: Tensor, second: Tensor) -> Tensor:
    equal = ops.equal(ops.expand_dims(first, 1), ops.expand_dims(second, 0))
    return ops.all(equal, axis=-1)


def _fingerprints(token_ids: Tensor) -> Tensor:
    """Return two numbers for each row of ids, which are equal for equal rows."""
    # Comparing ids would take batch * batch * length numbers. Products and sums are
    # modulo 2**32 on all backends.
    factors = ops.convert_to_tensor(_FACTORS.astype("int32"))
    ids = ops.expand_dims(ops.cast(token_ids, "int32"), -1)
    return ops.sum(ids * factors[: ops.shape(token_ids)[-1]], axis=-2)


def run_in_parts(
    forward: Callable[..., Tensor],
    rows: dict[str, Tensor],
    size: int,
    variables: Sequence[Any],
    seeds: Sequence[Any],
    training: bool | None,
) -> Tensor:
    """Compute the vectors of rows, `size` at a time, and again in the backward pass.

    This is gradient caching, [Gao et al., 2021](https://arxiv.org/abs/2101.06983).
    """
    # `forward` reads `variables`; among them are `seeds`, of its seed generators.
    count = ops.shape(rows["token_ids"])[0]
    num_parts = (count + size - 1) // size
    # The last part repeats the last row, whose copies have no gradient.
    numbers = ops.minimum(ops.arange(num_parts * size), count - 1)
    parts = {
        name: ops.reshape(
            ops.take(array, numbers, axis=0), (-1, size, ops.shape(array)[-1])
        )
        for name, array in rows.items()
    }
    is_seed = {id(seed) for seed in seeds}
    # Copies of the seeds, which are assigned before the backward pass.
    values = [ops.copy(v.value) if id(v) in is_seed else v.value for v in variables]

    def run_part(part: tuple[dict[str, Tensor], Tensor]) -> Tensor:
        ids, number = part

        def step(*values: Tensor) -> Tensor:
            # Dropout is the same in the backward pass, and differs between parts.
            scope = keras.StatelessScope()
            for variable, value in zip(variables, values, strict=True):
                if id(variable) in is_seed:
                    value = _skip(value, number)  # noqa: PLW2901
                # The constructor would cast back to float32.
                scope.add_update((variable, value))
            with scope:
                return forward(ids, training=training)

        return (keras.remat(step) if training else step)(*values)

    vectors = ops.map(run_part, (parts, ops.arange(num_parts, dtype="int32")))
    for seed in seeds if training else ():
        seed.assign(_skip(seed.value, num_parts))
    return ops.reshape(vectors, (-1, vectors.shape[-1]))[:count]


def _skip(seed: Tensor, number: Any) -> Tensor:
    """Return the state of a seed generator after a number of draws."""
    number = ops.cast(number, seed.dtype)
    return seed + ops.stack([ops.zeros_like(number), number])
