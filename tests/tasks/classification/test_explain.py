"""Which words an answer of a classifier depends on."""

import keras
import numpy as np
import pytest

from keras_albert import AlbertClassifier
from tests.one_backend import on_one_backend_except

pytestmark = on_one_backend_except(
    "test_parts_are_equal_on_all_backends_and_add_up",
    "test_changed_weights_are_explained",
)

TEXT = "an awful film with a fine cast"
# As all backends compute them.
PARTS = [0.02, 4.76, -0.01, -0.88, -0.97, -2.37, 0.30]


@pytest.fixture(scope="module")
def sentiment():
    return AlbertClassifier.from_preset("albert_small_en_uncased_sst2")


def test_parts_are_equal_on_all_backends_and_add_up(sentiment):
    found = sentiment.explain(TEXT)
    assert found.label == "negative"
    parts = [word.part for word in found.words]
    assert parts == pytest.approx(PARTS, abs=0.02)
    assert sum(parts) == pytest.approx(found.logit - found.baseline, abs=1e-3)
    logits = sentiment.predict([TEXT], verbose=0)[0]
    assert found.logit == pytest.approx(logits.max(), abs=1e-4)
    other = sentiment.explain(TEXT, label="positive")
    assert other.logit == pytest.approx(logits.min(), abs=1e-4)
    assert [word.part for word in other.top(2)] == pytest.approx(
        [-4.20, 2.08], abs=0.02
    )
    assert str(found).startswith("negative: an(+0.02) awful(+4.76)")


@pytest.mark.parametrize(
    "text", ["  Awful,\n\twith  a FINE café. ", ("a fine film", "an awful <b>film")]
)
def test_words_are_those_of_the_text(sentiment, text):
    found = sentiment.explain(text)
    texts = (text,) if isinstance(text, str) else text
    for word in found.words:
        assert texts[word.column][word.start : word.end] == word.text
    words = [word.text for word in found.words]
    assert words == " ".join(texts).split()
    shown = found._repr_html_()
    assert shown.count("<span") == len(words)
    assert "<b>film" not in shown


def test_words_beyond_a_row_are_left_out(sentiment, monkeypatch):
    monkeypatch.setattr(sentiment.preprocessor, "max_sequence_length", 12)
    assert len(sentiment.explain("film " * 50).words) == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": ["one", "two"]}, "takes one text or one pair"),
        ({"text": "one", "label": "so so"}, "'negative', 'positive'. Received: label="),
        ({"text": "one", "steps": 0}, "`steps`"),
    ],
)
def test_mistakes_are_named(sentiment, options, message):
    with pytest.raises(ValueError, match=message):
        sentiment.explain(**options)


@pytest.mark.filterwarnings("ignore:.*head.*")
@pytest.mark.parametrize(
    "head",
    [
        {"num_classes": 1},
        {"labels": ["a", "b", "c"], "activation": "sigmoid"},
        {"labels": ["a", "b"], "activation": "softmax"},
    ],
)
def test_other_heads(head):
    keras.utils.set_random_seed(0)
    classifier = AlbertClassifier.from_preset("albert_tiny_en_uncased", **head)
    found = classifier.explain(TEXT)
    total = sum(word.part for word in found.words)
    assert total == pytest.approx(found.logit - found.baseline, abs=5e-3)
    assert len(found.words) == len(TEXT.split())


def test_changed_weights_are_explained():
    sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
    first = sentiment.explain(TEXT)
    sentiment.output_dense.kernel.assign(2 * sentiment.output_dense.kernel)
    again = sentiment.explain(TEXT)
    parts = [[word.part for word in each.words] for each in (first, again)]
    np.testing.assert_allclose(parts[1], np.multiply(parts[0], 2), rtol=1e-3)
    sentiment.quantize("int8")
    rounded = [word.part for word in sentiment.explain(TEXT).words]
    assert np.corrcoef(rounded, parts[1])[0, 1] > 0.9


REVIEWS = [
    "a dull and lifeless story with one good scene",
    "the actors are wonderful although the plot is thin",
    "I would not watch this boring film again",
    "a touching, funny and clever little film",
]


def test_the_first_words_matter_most(sentiment):
    random = np.random.default_rng(0)
    changes = {"first": [], "random": []}
    for text in REVIEWS:
        found = sentiment.explain(text)
        words, number = text.split(), sentiment.class_names.index(found.label)
        order = np.argsort([-word.part for word in found.words])
        left = {"first": order[:2], "random": random.permutation(len(words))[:2]}
        for name, dropped in left.items():
            kept = [word for n, word in enumerate(words) if n not in dropped]
            logits = sentiment.predict([" ".join(kept)], verbose=0)[0]
            changes[name].append(found.logit - logits[number])
    assert np.mean(changes["first"]) > np.mean(changes["random"]) + 1
