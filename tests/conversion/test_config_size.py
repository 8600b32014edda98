"""Configs that describe what no file beside them can hold."""

import json

import pytest
from foreign_models import transformers_model

from keras_albert import AlbertBackbone, AlbertClassifier


@pytest.fixture
def checkpoint(tmp_path):
    pytest.importorskip("torch")
    theirs = transformers_model("AlbertForSequenceClassification")
    theirs.save_pretrained(tmp_path)
    return tmp_path


def change(directory, **changes):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": 2**40}, r"describes a model of at least [\d,]+ weights, and"),
        ({"intermediate_size": 10**9}, "describes a model of at least"),
        ({"vocab_size": 10**12}, "describes a model of at least"),
        # Layers share their weights, so that only a limit tells.
        ({"num_hidden_layers": 10**9}, "`num_hidden_layers`.*must be 1000 at most"),
    ],
)
def test_they_are_refused_before_anything_is_built(checkpoint, changes, message):
    change(checkpoint, **changes)
    with pytest.raises(ValueError, match=message):
        AlbertBackbone.from_preset(checkpoint)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classifier_dropout_prob": "a"}, "`classifier_dropout_prob`.*'a'"),
        ({"classifier_dropout_prob": 5}, "`classifier_dropout_prob`.*Received: 5"),
        ({"num_labels": "x", "id2label": None}, "`num_labels`.*'x'"),
    ],
)
def test_a_head_of_another_kind_is_refused(checkpoint, changes, message):
    change(checkpoint, **changes)
    with pytest.raises(ValueError, match=message):
        AlbertClassifier.from_preset(checkpoint, preprocessor=None)


def test_without_weights_any_size_may_be_built(checkpoint):
    change(checkpoint, vocab_size=5000)
    for path in checkpoint.glob("*.safetensors"):
        path.unlink()
    backbone = AlbertBackbone.from_preset(checkpoint, load_weights=False)
    assert backbone.vocabulary_size == 5000
