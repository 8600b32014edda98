"""The classifier as STS-B and its like need it: pairs, and scores."""

import keras
import numpy as np
import pytest

from keras_albert import AlbertClassifier, AlbertClassifierPreprocessor, AlbertTokenizer
from tests.tasks.small_models import LENGTHS, small_backbone, toy_pairs


def make(proto, num_segments=2, **kwargs):
    preprocessor = AlbertClassifierPreprocessor(AlbertTokenizer(proto), **LENGTHS)
    classifier = AlbertClassifier(
        small_backbone(num_segments=num_segments),
        preprocessor=preprocessor,
        dropout=0.0,
        **kwargs,
    )
    classifier.compile(learning_rate=3e-3)
    return classifier


@pytest.fixture(scope="module")
def scored_pairs():
    """Pairs whose score grows with the words of one kind in both texts."""
    pairs, _ = toy_pairs(192)
    kinds = [[text.split()[0] in ("lamps", "bread") for text in c] for c in pairs]
    return pairs, (np.sum(kinds, axis=0, dtype=float)).tolist()


def test_scores_of_pairs_correlate(toy_proto, scored_pairs):
    scipy_stats = pytest.importorskip("scipy.stats")
    pairs, scores = scored_pairs
    train = tuple(column[:160] for column in pairs)
    held_out = tuple(column[160:] for column in pairs)
    classifier = make(toy_proto, num_classes=1)
    before = classifier.predict(held_out, verbose=0)
    classifier.fit(train, scores[:160], batch_size=16, epochs=12, verbose=0)
    outputs = classifier.predict(held_out, verbose=0)
    assert outputs.shape == before.shape == (32, 1)
    truth = np.array(scores[160:])
    assert scipy_stats.pearsonr(outputs[:, 0], truth).statistic > 0.9
    # Ranks less: equal scores have no order, their predictions do.
    assert scipy_stats.spearmanr(outputs[:, 0], truth).statistic > 0.8
    answers = classifier.classify(held_out)
    np.testing.assert_allclose(
        [answer["score"] for answer in answers], outputs[:, 0], atol=1e-5
    )
    rmse = classifier.evaluate(held_out, truth, verbose=0, return_dict=True)["rmse"]
    assert rmse == pytest.approx(np.sqrt(np.mean((outputs[:, 0] - truth) ** 2)), 1e-3)


def test_a_model_of_one_segment_reads_pairs(toy_proto):
    """As one whose segments are equal, since there is no other for the second text."""
    pairs, _ = toy_pairs(3)
    one, two = (make(toy_proto, num_classes=2, num_segments=n) for n in (1, 2))
    for mine, other in zip(one.weights, two.weights, strict=True):
        other.assign(keras.ops.broadcast_to(mine, other.shape))
    np.testing.assert_allclose(
        one.predict(pairs, verbose=0), two.predict(pairs, verbose=0), atol=1e-6
    )
    ids = one.preprocessor(pairs)
    assert ids["segment_ids"].max() == 1
    np.testing.assert_array_equal(
        one.predict(ids, verbose=0), one.predict(pairs, verbose=0)
    )
