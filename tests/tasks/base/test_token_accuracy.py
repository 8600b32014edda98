import keras
import numpy as np
import pytest

from keras_albert.tasks.base.losses_and_metrics import TokenAccuracy


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


def test_each_token_counts_alike_whatever_its_batch():
    accuracy = TokenAccuracy()
    scores = np.eye(4, dtype="float32")
    # One of one in a batch of one slot, none of three in a batch of six.
    accuracy.update_state([[1]], scores[[[1]]], sample_weight=[[1.0]])
    wide = np.array([[0, 0, 0, 2, 2, 2]])
    accuracy.update_state(wide, scores[wide - 1], [[1.0] * 3 + [0.0] * 3])
    assert float(accuracy.result()) == pytest.approx(1 / 4)
    # One weight a row is that of each of its tokens.
    accuracy.update_state(wide, scores[wide], sample_weight=[2.0])
    assert float(accuracy.result()) == pytest.approx((1 + 12) / (4 + 12))
