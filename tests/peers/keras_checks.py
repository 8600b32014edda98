"""Small tasks of every kind, with data, for what any Keras model must do."""

from dataclasses import dataclass
from typing import Any

import keras

from keras_albert import AlbertClassifier, AlbertClassifierPreprocessor, AlbertTokenizer
from tests.compiled import to_numpy
from tests.tasks.masked_lm.masked_lm_models import make_masked_lm, make_pretrainer
from tests.tasks.question_answering.small_reader import small_reader
from tests.tasks.small_models import (
    LENGTHS,
    small_backbone,
    small_chooser,
    small_embedder,
    small_tagger,
    toy_pairs,
    toy_questions,
    toy_tags,
)
from tests.tasks.task_checks import assert_same

TEXTS = ["the old lamps", "rain on the hill", "bread by the river", "a storm"]
_SHORT = ["the hill", "rain", "by the sea", "lamps"]
# Where each answer begins, and the answer.
_READING = (["a hill", "rain"] * 2, _SHORT), [(4, "hill"), (0, "rain"), None, None]


def small_classifier(proto, num_classes=2, **kwargs):
    preprocessor = AlbertClassifierPreprocessor(AlbertTokenizer(proto), **LENGTHS)
    return AlbertClassifier(
        small_backbone(), num_classes, preprocessor, dropout=0.0, **kwargs
    )


def _labels(proto):
    return small_classifier(proto, labels=["a", "b"], activation="sigmoid")


NAMES, SCORES = ["a", "b", "a", "b"], [0.5, 1.0, 0.0, 2.0]
CONTRASTIVE = {"objective": "contrastive"}
# How to build a task, its raw input and its targets. The encoder reads four rows of 16
# tokens in each, since JAX compiles every operation for every shape.
CASES = {
    "classifier": (small_classifier, TEXTS, NAMES),
    "regressor": (lambda proto: small_classifier(proto, 1), TEXTS, SCORES),
    "several labels": (_labels, TEXTS, [["a"], [], ["a", "b"], ["b"]]),
    "exits": (lambda proto: small_classifier(proto, exits=True), TEXTS, NAMES),
    "chooser": (small_chooser, *toy_questions(2, choices=(2,))),
    "embedder": (small_embedder, *toy_pairs(2)),
    "contrastive embedder": (
        *(lambda proto: small_embedder(proto, **CONTRASTIVE), toy_pairs(2)[0], None),
    ),
    "tagger": (
        *(lambda proto: small_tagger(proto, labels=["O", "B-place"]), *toy_tags(2)),
    ),
    "reader": (small_reader, *_READING),
    "conditional reader": (
        *(lambda proto: small_reader(proto, head="conditional"), *_READING),
    ),
    "masked language model": (make_masked_lm, TEXTS, None),
    "pretrainer": (make_pretrainer, (_SHORT, _SHORT[::-1]), None),
}


@dataclass(frozen=True)
class Case:
    """A task to read, not to change; `make` makes another one with the same weights.

    For `ids`, which the preprocessor made of raw `x` and `y`, it returns `outputs`.
    """

    make: Any
    task: Any
    x: Any
    y: Any
    ids: dict[str, Any]
    targets: Any
    weights: Any
    outputs: Any


def make_case(name, proto):
    make, x, y = CASES[name]
    task = make(proto)
    targets = None if y is None else task.encode_targets(y)
    parts = keras.utils.unpack_x_y_sample_weight(task.preprocessor(x, targets))
    ids, targets, weights = parts
    outputs = to_numpy(task(ids))
    return Case(lambda: make(proto), task, x, y, ids, targets, weights, outputs)


def assert_equal_outputs(found, expected, atol=1e-5):
    """Two trees of outputs agree."""
    assert_same(to_numpy(found), expected, atol)


def values(variables):
    return [variable.value for variable in variables]


def symbolic(tree):
    """The shapes and dtypes of arrays, as symbolic tensors."""
    return keras.tree.map_structure(
        lambda x: keras.KerasTensor(x.shape, keras.backend.standardize_dtype(x.dtype)),
        tree,
    )


def described(tree):
    """The shapes and dtypes of tensors or arrays."""
    return keras.tree.map_structure(
        lambda x: (str(tuple(x.shape)), keras.backend.standardize_dtype(x.dtype)), tree
    )
