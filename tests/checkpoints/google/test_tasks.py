"""The heads of google-research/albert: pretraining, GLUE, RACE and SQuAD."""

import warnings

import numpy as np
import pytest

from keras_albert import AlbertBackbone, tasks
from keras_albert.checkpoints import export_checkpoint
from keras_albert.checkpoints.weight_map import variables_by_path
from keras_albert.presets.checkpoint import open_checkpoint
from tests.compiled import to_numpy
from tests.foreign_models import TINY, assert_computes_as, transformers_model
from tests.google_checkpoints import google_tensors, write_config, write_tf1
from tests.random_weights import random_weight

tf = pytest.importorskip("tensorflow")

# The class here, and the class of transformers that computes the same.
SAME = {
    "AlbertPretrainer": "AlbertForPreTraining",
    "AlbertMaskedLM": "AlbertForMaskedLM",
    "AlbertClassifier": "AlbertForSequenceClassification",
    "AlbertMultipleChoice": "AlbertForMultipleChoice",
    "AlbertQuestionAnswerer": "AlbertForQuestionAnswering",
}
WIDTH = 16
# SQuAD v2, for which transformers has no class.
CONDITIONAL = {
    "start_logits/dense/kernel": (WIDTH, 1),
    "start_logits/dense/bias": (1,),
    "end_logits/dense_0/kernel": (2 * WIDTH, WIDTH),
    "end_logits/dense_0/bias": (WIDTH,),
    "end_logits/LayerNorm/gamma": (WIDTH,),
    "end_logits/LayerNorm/beta": (WIDTH,),
    "end_logits/dense_1/kernel": (WIDTH, 1),
    "end_logits/dense_1/bias": (1,),
    "answer_class/dense_0/kernel": (2 * WIDTH, WIDTH),
    "answer_class/dense_0/bias": (WIDTH,),
    "answer_class/dense_1/kernel": (WIDTH, 1),
}


def _read(directory):
    reader = tf.train.load_checkpoint(str(directory / "model.ckpt-best"))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


def _save(directory, class_name, more=None, **arguments):
    directory.mkdir()
    options = {"activation": "gelu_new", "num_layers": 2}
    model = transformers_model(class_name, **(options | arguments))
    tensors = google_tensors(model)
    # google-research/albert always has a pooler.
    rng = np.random.default_rng(5)
    pooler = {
        "bert/pooler/dense/kernel": (WIDTH, WIDTH),
        "bert/pooler/dense/bias": (WIDTH,),
    }
    for name, shape in (pooler | (more or {})).items():
        tensors.setdefault(name, random_weight(name, shape, rng))
    write_config(directory, model)
    write_tf1(directory / "model.ckpt-best", tensors)
    return model, tensors


@pytest.mark.parametrize("name", SAME)
def test_a_head_is_the_same_on_both_sides(name, tmp_path):
    theirs, tensors = _save(tmp_path / "google", SAME[name])
    expected_name = {"AlbertMultipleChoice": "AlbertClassifier"}.get(name, name)
    assert open_checkpoint(tmp_path / "google").task_name() == expected_name
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        task = getattr(tasks, name).from_preset(tmp_path / "google", preprocessor=None)
    theirs.save_pretrained(tmp_path / "hf")
    assert_computes_as(task, tmp_path / "hf")
    export_checkpoint(task, tmp_path / "again", "google")
    written = _read(tmp_path / "again")
    np.testing.assert_equal(written, tensors)


def test_the_conditional_head_keeps_names_and_shapes(tmp_path):
    _, tensors = _save(tmp_path / "google", "AlbertModel", CONDITIONAL)
    assert open_checkpoint(tmp_path / "google").task_name() == "AlbertQuestionAnswerer"
    task = tasks.AlbertQuestionAnswerer.from_preset(
        tmp_path / "google", preprocessor=None
    )
    assert task.head == "conditional"
    kernel = to_numpy(variables_by_path(task)["span_head/end_dense/kernel"].value)
    np.testing.assert_array_equal(kernel, tensors["end_logits/dense_0/kernel"])
    export_checkpoint(task, tmp_path / "again", "google")
    written = _read(tmp_path / "again")
    np.testing.assert_equal(written, tensors)


@pytest.mark.parametrize(
    ("theirs", "name", "arguments", "new"),
    [
        ("AlbertForPreTraining", "AlbertClassifier", {"num_classes": 2}, "logits"),
        ("AlbertForSequenceClassification", "AlbertMultipleChoice", {}, "score"),
        ("AlbertForPreTraining", "AlbertQuestionAnswerer", {}, "span_logits"),
        ("AlbertForPreTraining", "AlbertTextEmbedder", {}, None),
    ],
)
def test_the_backbone_goes_into_any_task(tmp_path, theirs, name, arguments, new):
    _save(tmp_path / "google", theirs, num_layers=1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(tasks, name).from_preset(
            tmp_path / "google", preprocessor=None, **arguments
        )
    said = [str(w.message) for w in caught if "has no weights for" in str(w.message)]
    assert len(said) == (1 if new else 0)
    assert all(f"for {new}" in text for text in said)


def test_a_head_that_theirs_has_not_is_refused(tmp_path):
    backbone = AlbertBackbone(**(TINY | {"num_layers": 1}))
    task = tasks.AlbertTokenClassifier(backbone, num_classes=3)
    with pytest.raises(ValueError, match="has no model with the head"):
        export_checkpoint(task, tmp_path / "theirs", "google")
    assert not list(tmp_path.iterdir())
