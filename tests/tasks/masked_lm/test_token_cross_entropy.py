import keras
import numpy as np
import pytest

from keras_albert.tasks.masked_lm import TokenCrossEntropy


@pytest.mark.parametrize(
    "reduction", ["sum_over_batch_size", "mean_with_sample_weight"]
)
def test_it_is_keras_own(reduction):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 7, (3, 5))
    scores = rng.normal(size=(3, 5, 7)).astype("float32")
    weights = rng.integers(0, 2, (3, 5)).astype("float32")
    ours = TokenCrossEntropy(reduction=reduction)
    theirs = keras.losses.SparseCategoricalCrossentropy(True, reduction=reduction)
    expected = float(theirs(labels, scores, weights))
    assert float(ours(labels, scores, weights)) == pytest.approx(expected)
    again = TokenCrossEntropy.from_config(ours.get_config())
    assert float(again(labels, scores, weights)) == pytest.approx(expected)
