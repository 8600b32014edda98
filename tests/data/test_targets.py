"""What a task learns from targets, and how it reads them again."""

import numpy as np
import pytest

from tests.one_backend import on_one_backend
from tests.tasks.small_models import small_tagger

pytestmark = on_one_backend

TEXTS = ["lamps", "rain", "the hill"]


def test_a_failed_fit_leaves_no_labels(make_classifier):
    model = make_classifier()
    calls = (
        lambda y: model.fit(["lamps", None], y),
        lambda y: model.fit(TEXTS[:2], y, validation_data=(["a"], ["x"])),
        lambda y: model.fit(TEXTS[:2], y, class_weight={"other": 2.0}),
        lambda y: model.fit(TEXTS[:2], y, sample_weight=[1.0]),
        lambda y: model.train_on_batch(["lamps", None], y),
        lambda y: model.evaluate(["lamps", None], y),
    )
    for call in calls:
        with pytest.raises(ValueError, match=r"."):
            call(["positve", "negative"])
        assert model.labels is None
    model.fit(TEXTS[:2], ["positive", "negative"], verbose=0)
    assert model.labels == ("negative", "positive")


def test_a_failed_fit_leaves_no_scheme(toy_proto):
    tagger = small_tagger(toy_proto, num_classes=2)
    with pytest.raises(ValueError, match="row 1"):
        tagger.fit([["lamps"], [None]], [["B-x"], ["O"]])
    assert (tagger.labels, tagger.scheme) == (None, "auto")


@pytest.mark.parametrize("numbers", [[1, 2, 3], np.array([1.0, 2, 3]), [[1], [2], [3]]])
def test_integers_are_names_if_all_names_are(make_classifier, numbers):
    model = make_classifier(3)
    weights = {1: 2.0, 2: 0.0, 3: 5.0}
    model.fit(TEXTS, ["1", "2", "3"], class_weight=weights, verbose=0)
    assert model.labels == ("1", "2", "3")
    assert model.encode_targets(numbers).tolist() == [0, 1, 2]
    assert model.encode_class_weight(weights) == {0: 2.0, 1: 0.0, 2: 5.0}
    model.fit(TEXTS * 2, [*numbers] * 2, validation_split=0.5, verbose=0)
    named = model.evaluate(TEXTS, ["1", "2", "3"], verbose=0)
    assert model.evaluate(TEXTS, numbers, verbose=0) == pytest.approx(named)
    with pytest.raises(ValueError, match=r"Row 1 has the label '0'.*are names"):
        model.encode_targets([1, 0, 2])
    with pytest.raises(ValueError, match=r"has 0, which is not a class.*are: '1', '2'"):
        model.encode_class_weight({0: 1.0})


def test_a_wrong_label_names_a_similar_one(make_classifier):
    model = make_classifier(labels=("negative", "positive"))
    with pytest.raises(ValueError, match="Did you mean 'positive'"):
        model.encode_targets(["positve"])


def test_diverged_models_say_so(make_classifier, toy_proto):
    texts = TEXTS
    classifier, tagger = make_classifier(), small_tagger(toy_proto, num_classes=2)
    early = make_classifier(exits=True)
    for model, *calls in (
        (classifier, classifier.classify, classifier.predict_on_batch),
        (tagger, tagger.tag, tagger.predict),
        (early, lambda texts: early.classify(texts, threshold=0.9)),
    ):
        weight = model.output_dense.variables[0]
        weight.assign(weight * float("nan"))
        for call in calls:
            with pytest.raises(UserWarning, match="the model has diverged"):
                call(texts)
