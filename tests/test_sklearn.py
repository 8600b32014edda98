"""The estimator keeps the conventions of scikit-learn."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks

from keras_albert import AlbertClassifier
from keras_albert.sklearn import AlbertClassifierEstimator

GOOD, BAD = ("a fine film", "good fun", "a joy"), ("so boring", "a dull film", "awful")
TEXTS, LABELS = list(GOOD + BAD) * 2, (["good"] * 3 + ["bad"] * 3) * 2


@pytest.fixture(scope="module")
def fitted():
    return AlbertClassifierEstimator(method="linear").fit(TEXTS, LABELS)


@pytest.mark.parametrize(
    "name",
    [
        "check_parameters_default_constructible",
        "check_no_attributes_set_in_init",
        "check_get_params_invariance",
        "check_set_params",
        "check_estimator_cloneable",
        "check_estimator_repr",
        "check_do_not_raise_errors_in_init_or_set_param",
        "check_mixin_order",
        "check_valid_tag_types",
    ],
)
def test_checks_of_scikit_learn(name):
    check = getattr(estimator_checks, name, None)
    if check is None:
        pytest.skip("of another version")
    check("AlbertClassifierEstimator", AlbertClassifierEstimator())


def test_answers(fitted):
    assert is_classifier(fitted)
    assert fitted.classes_.tolist() == ["bad", "good"]
    assert isinstance(fitted.model_, AlbertClassifier)
    chances = fitted.predict_proba(["how dull", "what a joy"])
    np.testing.assert_allclose(chances.sum(1), 1, atol=1e-6)
    answers = fitted.predict(np.array(["how dull", "what a joy"]))
    assert answers.tolist() == ["bad", "good"]
    assert fitted.classes_[chances.argmax(1)].tolist() == answers.tolist()
    assert fitted.score(TEXTS, LABELS) == 1
    again = pickle.loads(pickle.dumps(fitted))  # noqa: S301
    np.testing.assert_allclose(again.predict_proba(TEXTS), fitted.predict_proba(TEXTS))
    with pytest.raises(NotFittedError):
        clone(fitted).predict(TEXTS)


def test_searches_and_pipelines():
    estimator = AlbertClassifierEstimator(method="linear", C=0.1)
    assert cross_val_score(estimator, TEXTS, LABELS, cv=3).mean() == 1
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lower, estimator)
    settings = {"albertclassifierestimator__C": [1e-4, 1.0]}
    search = GridSearchCV(pipeline, settings, cv=2, scoring="neg_log_loss")
    search.fit([text.upper() for text in TEXTS], [label == "good" for label in LABELS])
    assert search.best_params_ == {"albertclassifierestimator__C": 1.0}
    assert search.predict(["A JOY", "AWFUL"]).tolist() == [True, False]


def test_both_methods_in_a_search():
    settings = {"method": ["linear", "finetune"], "learning_rate": [1e-4], "C": [1.0]}
    estimator = AlbertClassifierEstimator(
        "albert_tiny_en_uncased", epochs=1, random_state=0
    )
    search = GridSearchCV(estimator, settings, cv=2).fit(TEXTS, [3, 3, 3, 7, 7, 7] * 2)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert set(search.predict(TEXTS)) <= {3, 7}


def test_pairs_and_weights():
    pairs = [(text, "the film") for text in TEXTS]
    weights = np.ones(len(TEXTS))
    estimator = AlbertClassifierEstimator(method="linear", C=1.0)
    estimator.fit(pairs, LABELS, sample_weight=weights)
    assert estimator.score(pairs, LABELS) == 1


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["good"] * 12, r"only 1 class, \['good'\]"),
        (["good", None] * 6, "Row 1: the label is None"),
        (np.eye(2)[[0, 1] * 6], "not multilabel"),
        (np.linspace(0.5, 1, 12), "one class for each text, not continuous"),
        (["good"] * 11, "12 examples, but 11 targets|only 1 class"),
    ],
)
def test_bad_targets(labels, message):
    with pytest.raises(ValueError, match=message):
        AlbertClassifierEstimator(method="linear").fit(TEXTS, labels)
