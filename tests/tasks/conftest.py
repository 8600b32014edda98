"""A separable toy problem, and small classifiers that learn it in seconds."""

import keras
import numpy as np
import pytest

from keras_albert import AlbertClassifier, AlbertClassifierPreprocessor, AlbertTokenizer
from tests.programs import run_python
from tests.tasks.small_models import small_backbone

_MOODS = {"good": ("lamps", "bread"), "bad": ("rain", "storm")}
_FILLER = "the a in of on and it was by the hill town old small river sea"


def _make_texts(count):
    """Half of the texts have words of one kind, half those of the other."""
    random = np.random.default_rng(0)
    texts, labels = [], []
    for row in range(count):
        label = ("good", "bad")[row % 2]
        words = list(random.choice(_FILLER.split(), random.integers(0, 8)))
        words += list(random.choice(_MOODS[label], 3))
        texts.append(" ".join(random.permutation(words)))
        labels.append(label)
    return texts, labels


@pytest.fixture(scope="session")
def toy():
    """192 texts and the names of their classes."""
    return _make_texts(192)


@pytest.fixture(scope="session")
def toy_proto(toy):
    from keras_albert.text import train_vocabulary

    return train_vocabulary(toy[0], vocabulary_size=40)


@pytest.fixture(scope="session")
def make_classifier(toy_proto):
    """Build a small classifier; the same `seed` gives the same weights."""

    def make(num_classes=2, dtype=None, dropout=0.0, sequence_length=None, **kwargs):
        backbone = small_backbone(dtype=dtype)
        preprocessor = AlbertClassifierPreprocessor(
            AlbertTokenizer(toy_proto),
            sequence_length=sequence_length,
            max_sequence_length=32,
            length_buckets=[16],  # JAX compiles for each
        )
        kwargs = {"preprocessor": preprocessor} | kwargs
        return AlbertClassifier(
            backbone, num_classes=num_classes, dropout=dropout, **kwargs
        )

    return make


@pytest.fixture(scope="session")
def trained(make_classifier, toy):
    """A classifier that has learned the toy problem: to read, not to change."""
    classifier = make_classifier()
    classifier.compile(learning_rate=4e-3)
    classifier.fit(*toy, batch_size=16, epochs=5, verbose=0)
    return classifier


@pytest.fixture(scope="session")
def run_fresh():
    """Run a program in a process of its own, on any backend; give what it prints."""

    def run(program, *arguments, backend=None):
        variables = {"KERAS_BACKEND": backend or keras.config.backend()}
        return run_python("-c", program, *arguments, **variables)

    return run
