"""Fixtures of exports, which take many seconds each and are shared by all tests."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertClassifierPreprocessor,
    AlbertTokenizer,
)
from tests.programs import run_python
from tests.random_weights import add_noise
from tests.warm_python.start import REAL_PYTHON

_MESSAGES = Path(__file__).parents[2] / "examples" / "data" / "support_messages.tsv"


@pytest.fixture(scope="session")
def messages():
    """500 real messages, and difficult texts."""
    with _MESSAGES.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    hard = ["", " \t ", "🙂 naïve CAFÉ, in 2011", "[SEP] [CLS]", "far too long " * 3000]
    return [row["text"] for row in rows[:500]] + hard


@pytest.fixture(scope="session")
def build():
    """Build a classifier whose predictions differ visibly between texts."""

    def make(proto, num_classes, sizes=None, **kwargs):
        tokenizer = AlbertTokenizer(proto)
        sizes = {"hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2} | (
            sizes or {}
        )
        classifier = AlbertClassifier(
            AlbertBackbone(
                vocabulary_size=tokenizer.vocabulary_size(),
                num_layers=2,
                embedding_dim=8,
                max_sequence_length=64,
                seed=5,
                **sizes,
            ),
            num_classes=num_classes,
            preprocessor=AlbertClassifierPreprocessor(
                tokenizer, max_sequence_length=64
            ),
            **kwargs,
        )
        return add_noise(classifier, 1.2 / sizes["hidden_dim"] ** 0.5)

    return make


@pytest.fixture(scope="session")
def serve(tmp_path_factory):
    """Run a program that imports only TensorFlow, and return its arrays by name."""

    def run(program, **given):
        folder = tmp_path_factory.mktemp("served")
        (folder / "given.json").write_text(json.dumps(given), encoding="utf-8")
        whole = _BEFORE + program + _AFTER
        hidden = {"CUDA_VISIBLE_DEVICES": "-1"}
        run_python("-c", whole, folder, python=REAL_PYTHON, **hidden)
        with np.load(folder / "answers.npz", allow_pickle=False) as arrays:
            return dict(arrays)

    return run


_BEFORE = """
import json, sys
import numpy as np
import tensorflow as tf
import tensorflow_text
folder = sys.argv[1]
given = json.load(open(folder + "/given.json", encoding="utf-8"))
answers = {}
def keep(name, outputs):
    for key, tensor in outputs.items():
        array = tensor.numpy()
        if array.dtype == object:
            array = np.array(array.tolist() or [], bytes).reshape(array.shape)
        answers[f"{name}/{key}"] = array
"""

_AFTER = """
assert not {"keras_hub", "keras_albert"} & set(sys.modules)
np.savez(folder + "/answers.npz", **answers)
"""
