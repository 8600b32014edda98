"""Contrastive training before a linear head."""

import numpy as np
import pytest

from keras_albert import AlbertClassifier
from keras_albert.tasks.classification.linear import draw_pairs, read_vectors
from tests.one_backend import on_one_backend_except

pytestmark = on_one_backend_except("test_texts_of_a_class_get_similar_vectors")


def test_half_of_the_pairs_have_one_class():
    y = np.array([0, 0, 1, 2, 1, 2, 2])
    (first, second), is_same = draw_pairs(y)
    assert is_same.mean() == 0.5
    assert (first != second).all()
    np.testing.assert_array_equal(y[first] == y[second], is_same)
    assert set(first) == set(range(7))


def separation(model, texts, labels):
    """Return how much nearer texts of a class are than others, as cosines."""
    mean = np.split(read_vectors(model, texts), 2, axis=-1)[1]
    mean /= np.linalg.norm(mean, axis=-1, keepdims=True)
    cosines, same = mean @ mean.T, np.equal.outer(labels, labels)
    others = ~np.eye(len(texts), dtype=bool)
    return cosines[same & others].mean() - cosines[~same].mean()


def test_texts_of_a_class_get_similar_vectors(make_classifier, toy, tmp_path):
    texts, labels = toy[0][:24], np.array(toy[1][:24])
    model = make_classifier(labels=("bad", "good"))
    before = separation(model, texts[2:], labels[2:])
    # The first two do not count.
    weights = np.array([0.0] * 2 + [1.0] * 22)
    history = model.fit(
        texts, labels, method="contrastive", sample_weight=weights, verbose=0
    )
    assert separation(model, texts[2:], labels[2:]) > 1.5 * before > 0
    assert history.history.keys() == {"loss", "accuracy", "C"}
    assert history.history["accuracy"][0] > 0.9
    expected = model.predict(texts, verbose=0)
    model.save_to_preset(tmp_path / "saved")
    again = AlbertClassifier.from_preset(tmp_path / "saved")
    np.testing.assert_allclose(again.predict(texts, verbose=0), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": (["a", "b"] * 2, ["c", "d"] * 2)}, "single texts with one class"),
        ({"y": [0, 0, 0, 1]}, "3 of 4 texts have the label"),
        ({"epochs": 2}, "Leave out 'epochs'"),
        ({"method": "setfit"}, "`method` must be one of"),
    ],
)
def test_bad_input_changes_nothing(make_classifier, arguments, message):
    model = make_classifier(2)
    weights = [np.array(w) for w in model.get_weights()]
    given = {"x": ["a", "b", "c", "d"], "y": [0, 0, 1, 1], "method": "contrastive"}
    with pytest.raises(ValueError, match=message):
        model.fit(**(given | arguments), verbose=0)
    for weight, found in zip(weights, model.get_weights(), strict=True):
        np.testing.assert_array_equal(np.array(found), weight)


def test_a_frozen_encoder_is_refused(make_classifier):
    model = make_classifier(2)
    model.backbone.trainable = False
    with pytest.raises(ValueError, match="the encoder, but it is frozen"):
        model.fit(list("abcd"), [0, 0, 1, 1], method="contrastive", verbose=0)
