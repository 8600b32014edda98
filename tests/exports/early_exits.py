"""Classifiers with exits whose texts leave at different depths."""

import random

import numpy as np

from tests.exports.served_models import HARD, WORDS, make_task

LAYERS = 4
_WORDS = random.Random(7)
TEXTS = [
    " ".join(_WORDS.choices(WORDS.split(), k=_WORDS.randint(1, 30))) for _ in range(20)
]
TEXTS += HARD
KINDS = {
    "classes": {"labels": ("a", "é", "c")},
    "several": {"labels": ("a", "é", "c"), "activation": "sigmoid"},
    "scores": {"num_classes": 1},
}
# Each kind with the names of its signatures.
CASES = [(kind, "early") for kind in KINDS]
CASES += [("classes", "confident"), ("several", "confident")]
INVALID = [
    ("classes", "early", {"patience": 0}, "from 1 to 2"),
    ("classes", "early", {"patience": 3}, "from 1 to 2"),
    ("classes", "confident", {"threshold": 0.0}, "between 0 and 1"),
    ("classes", "confident", {"threshold": 1.0}, "between 0 and 1"),
    ("scores", "early", {"patience": 1, "tolerance": 0.0}, "above 0"),
    ("scores", "early", {"patience": 1, "tolerance": float("nan")}, "above 0"),
]


def make_early(kind, proto):
    """Make a classifier whose exits disagree on texts, the same on all backends."""
    arguments = {"num_layers": LAYERS, "exits": True, "sizes": {"adapter_rank": 2}}
    arguments |= KINDS[kind]
    classifier = make_task("Classifier", proto, **arguments)
    noise = np.random.default_rng(4)
    weights = [
        noise.normal(float("gamma" in variable.path), 0.3, variable.shape)
        for variable in classifier.weights
    ]
    linear = make_task("Classifier", proto, **arguments | {"activation": None})
    for task in (classifier, linear):
        task.set_weights(weights)
    heads = by_depth(linear)
    kernel, bias = classifier.output_dense.get_weights()
    factors = 1.5 / heads.std(axis=1, keepdims=True)
    bias = (bias - heads.mean(axis=1)) * factors[:, 0]
    classifier.output_dense.set_weights([kernel * factors, bias])
    return classifier


def assert_answers(classifier, found, outputs, depths):
    """Compare what a served model answers with what `predict` returned."""
    assert found["depth"].dtype == np.int32
    np.testing.assert_array_equal(found["depth"], depths)
    if classifier.is_regression:
        np.testing.assert_allclose(found["score"], outputs[:, 0], atol=1e-3)
        return
    probabilities = classifier.probabilities(outputs)
    np.testing.assert_allclose(found["probabilities"], probabilities, atol=1e-4)
    best = probabilities.argmax(axis=-1)
    if "index" in found:
        assert found["index"].tolist() == best.tolist()
    else:
        names = [classifier.class_names[i].encode() for i in best]
        assert found["label"].tolist() == names


def make_rules(classifier, name):
    """Return what requests to a signature set, such that some texts leave first."""
    if name == "early" and not classifier.is_regression:
        return [{"patience": 1}, {"patience": 2}]
    heads = by_depth(classifier)
    if name == "early":
        tolerance = _between(np.abs(heads[1] - heads[0]))
        return [{"patience": n, "tolerance": tolerance} for n in (1, 2)]
    certain = classifier.probabilities(heads[0])
    if classifier.is_multi_label:
        certain = np.maximum(certain, 1 - certain).min(axis=-1)
    else:
        certain = certain.max(axis=-1)
    return [{"threshold": _between(certain)}]


def by_depth(classifier):
    """Return the outputs of each exit."""
    depths = range(1, LAYERS + 1)
    return np.stack(
        [classifier.predict(TEXTS, num_layers=n, verbose=0) for n in depths]
    )


def _between(numbers):
    """Return the middle of the widest gap near the median, where nothing is rounded."""
    numbers = np.sort(numbers, axis=None)[8:-8]
    first = np.diff(numbers).argmax()
    return float(numbers[first : first + 2].mean())
