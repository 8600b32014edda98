import keras
import numpy as np
import pytest

from keras_albert.tasks.token_accuracy import TokenAccuracy


@pytest.mark.parametrize("shape", [(7,), (3, 5)])
def test_it_is_keras_own(shape):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, shape)
    scores = rng.normal(size=(*shape, 4)).astype("float32")
    weights = rng.integers(0, 2, shape).astype("float32")
    ours, theirs = TokenAccuracy(), keras.metrics.SparseCategoricalAccuracy()
    for _ in range(2):
        for metric in (ours, theirs):
            metric.update_state(labels, scores, sample_weight=weights)
        scores = -scores
    assert 0 < float(ours.result()) < 1
    assert float(ours.result()) == pytest.approx(float(theirs.result()))
    again = TokenAccuracy.from_config(ours.get_config())
    assert again.name == "accuracy"
