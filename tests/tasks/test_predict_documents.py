"""Texts of any length: an answer from all of their windows."""

import numpy as np
import pytest

from tests.one_backend import on_one_backend
from tests.random_weights import fill_weights
from tests.tasks.small_models import small_embedder

pytestmark = on_one_backend

SHORT = ["bread by the old sea", "", "rain", " \t "]
LONG = "the old river and lamps " * 9 + "a storm in town, rain by the hill " * 11


def whole(method, *args, **kwargs):
    return method(*args, truncate=False, **kwargs)


@pytest.fixture(scope="module")
def classifier(make_classifier):
    """One whose weights are far from the initial ones: windows differ."""
    return fill_weights(make_classifier(3))


@pytest.fixture(scope="module")
def embedder(toy_proto):
    return fill_weights(small_embedder(toy_proto))


def window_outputs(task, text, stride):
    """The outputs of each window, one by one, and how many tokens are nearest to it."""
    preprocessor = task.preprocessor
    tokens = preprocessor.tokenizer.tokenize_rows([text]).to_lists()[0]
    size = preprocessor.max_length - 2
    assert len(tokens) > 3 * size
    begins = [*range(0, len(tokens) - size, stride), len(tokens) - size]
    special = preprocessor.special_ids
    rows = [[special.cls, *tokens[b : b + size], special.sep] for b in begins]
    ids = {
        "token_ids": np.array(rows, np.int32),
        "segment_ids": np.zeros((len(rows), size + 2), np.int32),
        "padding_mask": np.ones((len(rows), size + 2), np.int32),
    }
    middles = np.array(begins) + size / 2
    nearest = [np.abs(middles - t - 0.5).argmin() for t in range(len(tokens))]
    counts = np.bincount(nearest, minlength=len(begins))
    return task.predict(ids, verbose=0), counts


@pytest.mark.parametrize("stride", [None, 4, 30])
def test_logits_are_means_by_tokens(classifier, stride):
    outputs, counts = window_outputs(classifier, LONG, stride or 15)
    assert outputs.std(axis=0).min() > 0.01
    found = whole(classifier.predict, [*SHORT, LONG], stride=stride)
    expected = np.average(outputs, axis=0, weights=counts)
    np.testing.assert_allclose(found[-1], expected, atol=1e-5)
    short = classifier.predict(SHORT, verbose=0)
    np.testing.assert_allclose(found[:-1], short, atol=1e-5)


def test_vectors_are_means_of_length_1(embedder):
    outputs, counts = window_outputs(embedder, LONG, 15)
    mean = np.average(outputs, axis=0, weights=counts)
    length = np.linalg.norm(mean)
    assert length < 0.999
    found = whole(embedder.embed, [LONG, *SHORT], batch_size=3)
    np.testing.assert_allclose(found[0], mean / length, atol=1e-5)
    np.testing.assert_allclose(found[1:], embedder.embed(SHORT), atol=1e-5)


def test_vectors_of_any_length_stay_so(toy_proto, embedder):
    free = small_embedder(toy_proto, normalize=False)
    free.set_weights(embedder.get_weights())
    outputs, counts = window_outputs(free, LONG, 7)
    found = whole(free.embed, LONG, stride=7)
    expected = np.average(outputs, axis=0, weights=counts)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)


def test_what_fits_in_a_row_has_the_outputs_of_predict(classifier, embedder, toy):
    texts = [*toy[0][:8], *SHORT]
    found = whole(classifier.predict, texts)
    np.testing.assert_array_equal(found, classifier.predict(texts, verbose=0))
    assert whole(classifier.classify, texts, top_k=2) == classifier.classify(texts, 2)
    found = whole(embedder.embed, texts)
    np.testing.assert_allclose(found, embedder.embed(texts), atol=1e-6)


def test_a_single_text_and_none(classifier, embedder):
    assert whole(classifier.predict, LONG).shape == (1, 3)
    assert whole(classifier.predict, []).shape == (0, 3)
    assert whole(classifier.classify, []) == []
    assert whole(embedder.embed, "").shape == (32,)
    assert whole(embedder.embed, []).shape == (0, 32)


def test_classes_of_documents(classifier):
    logits = whole(classifier.predict, [LONG, "rain"])
    best, other, last = whole(classifier.classify, LONG, top_k=3)
    assert best == whole(classifier.classify, LONG)
    assert best["score"] >= other["score"] >= last["score"]
    probabilities = classifier.probabilities(logits)[0]
    assert best["score"] == pytest.approx(probabilities.max(), abs=1e-5)
    assert best["label"] == str(probabilities.argmax())
    # The end of the text has its say.
    assert np.abs(logits[0] - classifier.predict([LONG], verbose=0)[0]).max() > 0.01
    assert len(whole(classifier.classify, [LONG, "rain"])) == 2


@pytest.mark.parametrize(
    ("num_classes", "activation"), [(1, None), (3, "softmax"), (3, "sigmoid")]
)
def test_other_outputs_than_logits(make_classifier, num_classes, activation):
    classifier = fill_weights(make_classifier(num_classes, activation=activation))
    outputs, counts = window_outputs(classifier, LONG, 15)
    expected = np.average(outputs, axis=0, weights=counts)
    answers = whole(classifier.classify, [LONG], top_k=num_classes)[0]
    answers = [answers] if num_classes == 1 else answers
    scores = [answer["score"] for answer in answers]
    assert scores == pytest.approx(np.sort(expected)[::-1], abs=1e-5)


def test_says_what_is_wrong(classifier, embedder):
    for call in (classifier.classify, embedder.embed):
        with pytest.raises(ValueError, match="reads single texts, and these are pairs"):
            whole(call, [("a", "b")])
        with pytest.raises(ValueError, match="row 1 of texts is None"):
            whole(call, ["a", None])
        with pytest.raises(ValueError, match=r"from 1 to 30, .*Received: stride=31"):
            whole(call, "a", stride=31)
    with pytest.raises(ValueError, match="Leave out 'num_layers'"):
        whole(classifier.classify, "a", num_layers=1)
    with pytest.raises(ValueError, match="top_k=0"):
        whole(classifier.classify, "a", top_k=0)
