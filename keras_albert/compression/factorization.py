"""Narrower embeddings that reproduce those of a trained model."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.layers.factorized_embedding import FactorizedEmbedding

FloatArray = npt.NDArray[Any]

# How many embedded tokens the projection is fitted to, for each of its inputs.
_SAMPLES_PER_DIM = 200

# The positions of the sample: most texts are short.
_POSITIONS = 64


class Factors(NamedTuple):
    """The weights of a `FactorizedEmbedding`, in the order in which it holds them."""

    token: FloatArray
    position: FloatArray
    segment: FloatArray
    scale: FloatArray
    offset: FloatArray
    kernel: FloatArray
    bias: FloatArray


def factorize(
    embedding: FactorizedEmbedding,
    embedding_dim: int,
    token_counts: npt.ArrayLike | None,
    seed: int,
    token_table: FloatArray | None = None,
) -> Factors:
    """Return weights of width `embedding_dim` for a trained embedding.

    LayerNorm divides by the length of a vector and ignores its mean, so what counts are
    directions: the tables are projected to the principal directions of their
    centered, normalized sums (an SVD). These are placed where the mean over the
    narrow axis is 0, so that the new LayerNorm also only divides. Last, the projection
    is fitted to the embedding's outputs by least squares.
    """
    generator = np.random.default_rng(seed)
    if token_table is None:
        token_table = embedding.token_embedding.embeddings
    tables = [
        _centered(_array(table))
        for table in (
            token_table,
            embedding.position_embedding.position_embeddings,
            embedding.segment_embedding.embeddings,
        )
    ]
    count = _SAMPLES_PER_DIM * embedding_dim
    # Each table is looked up at a row of its own.
    rows = [
        generator.choice(len(tables[0]), count, p=_shares(token_counts)),
        generator.integers(min(_POSITIONS, len(tables[1])), size=count),
        generator.integers(len(tables[2]), size=count),
    ]
    unit = _normalized(_sum_at(tables, rows))
    _, vectors = np.linalg.eigh(unit.T @ unit)
    to_narrow = vectors[:, 1 - embedding_dim :] @ _zero_mean_basis(embedding_dim).T
    narrow = [table @ to_narrow for table in tables]

    outputs = unit * _array(embedding.layer_norm.gamma)
    outputs += _array(embedding.layer_norm.beta)
    if embedding.projection is not None:
        outputs = outputs @ _array(embedding.projection.kernel)
        outputs += _array(embedding.projection.bias)
    inputs = _normalized(_sum_at(narrow, rows))
    inputs = np.concatenate([inputs, np.ones((count, 1))], axis=1)
    fitted, *_ = np.linalg.lstsq(inputs, outputs, rcond=None)
    scale, offset = np.ones(embedding_dim), np.zeros(embedding_dim)
    token, position, segment = narrow
    return Factors(token, position, segment, scale, offset, fitted[:-1], fitted[-1])


def _array(variable: Any) -> FloatArray:
    array: FloatArray = np.asarray(ops.convert_to_numpy(variable), float)
    return array


def _centered(x: FloatArray) -> FloatArray:
    mean: FloatArray = x.mean(axis=-1, keepdims=True)
    return x - mean


def _normalized(x: FloatArray) -> FloatArray:
    """Return what a LayerNorm without weights returns."""
    x = _centered(x)
    variance: FloatArray = (x**2).mean(axis=-1, keepdims=True)
    return x / np.sqrt(variance + 1e-12)


def _sum_at(tables: list[FloatArray], rows: list[Any]) -> FloatArray:
    terms = [table[row] for table, row in zip(tables, rows, strict=True)]
    total: FloatArray = np.add.reduce(terms)
    return total


def _shares(counts: npt.ArrayLike | None) -> FloatArray | None:
    if counts is None:
        return None
    array: FloatArray = np.asarray(counts, float)
    shares: FloatArray = array / np.sum(array)
    return shares


def _zero_mean_basis(width: int) -> FloatArray:
    """Return `width - 1` orthogonal vectors whose components sum to 0, as columns."""
    start = np.eye(width)
    start[:, 0] = 1.0
    return np.linalg.qr(start)[0][:, 1:]
