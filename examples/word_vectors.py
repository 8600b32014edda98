"""Word vectors from counts, for a model to begin with.

ALBERT's token embeddings are a narrow table of their own, as word vectors are, and so
can start as such: the positive pointwise mutual information of pieces that stand near
each other, reduced to the table's width
([Levy & Goldberg, 2014](https://papers.nips.cc/paper_files/paper/2014/hash/feab05aa91085b7a8012516bc3533958-Abstract.html)).
Counting sixty million tokens takes seconds, and a small model that starts from it finds
out in half as many steps that neighbours tell of each other.
"""

from collections.abc import Iterator

import numpy as np
from sklearn.utils.extmath import randomized_svd

from keras_albert.pretraining import PretrainingData

ROWS_AT_ONCE = 100_000


def word_vectors(
    data: PretrainingData, width: int, window: int = 4, deviation: float = 0.05
) -> np.ndarray:
    """Make a vector for each piece of the vocabulary.

    Args:
        data: What `keras-albert prepare` wrote.
        width: int. Numbers in a vector.
        window: int. How far apart two tokens count as near; the nearer, the more.
        deviation: float. The standard deviation of the vectors' numbers.

    Returns:
        float32 array `(vocabulary, width)`; pieces that never occur have random ones.
    """
    near = count_neighbours(data, window)
    near += near.T.copy()
    often = near.sum(axis=1)
    # To the power of 3/4: rare pieces would else seem to know their neighbours best.
    smoothed = often**0.75 / (often**0.75).sum()
    by_chance = np.maximum(often[:, None] * smoothed, 1e-12)
    information = np.log(np.maximum(near / by_chance, 1))
    information = (information + information.T) / 2
    left, strength, _ = randomized_svd(information, width, n_iter=3, random_state=0)
    vectors = left * np.sqrt(strength)
    vectors *= deviation / vectors.std()
    unknown = often == 0
    random = np.random.default_rng(0)
    vectors[unknown] = random.normal(0, deviation, (unknown.sum(), width))
    return vectors.astype("float32")


def count_neighbours(data: PretrainingData, window: int) -> np.ndarray:
    """Count the pieces that follow each piece: at distance d, 1/d of a time."""
    size = data.tokenizer.vocabulary_size()
    counts = np.zeros(size * size, "float32")
    for ids, rows in segments(data):
        for distance in range(1, window + 1):
            same_row = rows[distance:] == rows[:-distance]
            pairs = ids[:-distance] * size + ids[distance:]
            found, times = np.unique(pairs[same_row], return_counts=True)
            counts[found] += times / distance
    return counts.reshape(size, size)


def segments(data: PretrainingData) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Give tokens, and the number of the segment that each is in."""
    for start in range(0, len(data), ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, len(data)))
        for segment in data.segments(rows):
            numbers = np.repeat(np.arange(len(segment.lengths)), segment.lengths)
            yield segment.values.astype("int64"), numbers
