"""Word vectors from counts, as initial token embeddings.

ALBERT's token embeddings are a separate, narrow table, and can thus be initialized
with word vectors: the positive pointwise mutual information of nearby pieces, reduced
to the width of the table
([Levy & Goldberg, 2014](https://papers.nips.cc/paper_files/paper/2014/hash/feab05aa91085b7a8012516bc3533958-Abstract.html)).
Counting sixty million tokens takes seconds, and a small model that starts from these
vectors learns to predict tokens from their neighbours in half as many steps.
"""

from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils.extmath import randomized_svd

from keras_albert.pretraining import PretrainingData

ROWS_AT_ONCE = 100_000


def word_vectors(
    data: PretrainingData, width: int, window: int = 4, deviation: float = 0.05
) -> np.ndarray:
    """Compute a vector for each piece of the vocabulary.

    Args:
        data: `PretrainingData`, which `keras-albert prepare` wrote.
        width: int. The width of the vectors.
        window: int. The maximum distance of two tokens; nearer ones count more.
        deviation: float. The standard deviation of the vectors' elements.

    Returns:
        float32 array `(vocabulary, width)`; vectors of unused pieces are random.
    """
    near = count_neighbours(data, window)
    near = (near + near.T).tocoo()
    often = np.asarray(near.sum(axis=1), "float64")
    # To the power of 3/4, as the information of rare pieces would be overestimated.
    smoothed = often**0.75 / (often**0.75).sum()
    by_chance = often[near.row] * smoothed[near.col]
    positive = np.log(np.maximum(near.data / by_chance, 1))
    information = csr_array((positive, (near.row, near.col)), near.shape)
    information = (information + information.T) / 2
    left, strength, _ = randomized_svd(information, width, n_iter=3, random_state=0)
    vectors = left * np.sqrt(strength)
    vectors *= deviation / vectors.std()
    unknown = often == 0
    random = np.random.default_rng(0)
    vectors[unknown] = random.normal(0, deviation, (unknown.sum(), width))
    return vectors.astype("float32")


def count_neighbours(data: PretrainingData, window: int) -> csr_array:
    """Count the pieces that follow each piece, with weight 1/d at distance d."""
    size = data.tokenizer.vocabulary_size()
    counts = csr_array((size, size), dtype="float32")
    for ids, rows in segments(data):
        for distance in range(1, window + 1):
            same_row = rows[distance:] == rows[:-distance]
            pairs = ids[:-distance][same_row], ids[distance:][same_row]
            once = np.full(len(pairs[0]), 1 / distance, "float32")
            # Values at the same position are summed.
            counts += csr_array((once, pairs), (size, size))
    return counts


def segments(data: PretrainingData) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield tokens, and the number of the segment of each."""
    for start in range(0, len(data), ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, len(data)))
        for segment in data.segments(rows):
            numbers = np.repeat(np.arange(len(segment.lengths)), segment.lengths)
            yield segment.values.astype("int64"), numbers
