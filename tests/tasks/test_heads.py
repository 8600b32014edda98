"""A head that nothing trained or loaded warns when a method answers with it."""

import re
import warnings

import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertPretrainer,
    AlbertTokenClassifier,
)
from keras_albert.checkpoints import export_checkpoint
from tests.one_backend import on_one_backend
from tests.peers.keras_checks import small_classifier
from tests.tasks.masked_lm.masked_lm_models import make_masked_lm, make_pretrainer
from tests.tasks.question_answering.small_reader import small_reader
from tests.tasks.small_models import small_chooser, small_embedder, small_tagger

pytestmark = on_one_backend


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ({"num_classes": 3}, ("0", "1", "2")),
        ({"labels": ["low", "middle", "high"]}, ("low", "middle", "high")),
        ({"num_classes": 1}, ("0",)),
    ],
)
def test_other_classes_get_a_new_head(make_classifier, tmp_path, arguments, names):
    saved = make_classifier(labels=["bad", "good"])
    saved.save_to_preset(tmp_path / "preset")
    loaded = AlbertClassifier.from_preset(tmp_path / "preset", **arguments)
    assert loaded.class_names == names
    assert loaded.predict(["a text"], verbose=0).shape == (1, len(names))
    for ours, theirs in zip(
        loaded.backbone.weights, saved.backbone.weights, strict=True
    ):
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))


@pytest.mark.parametrize("task", [AlbertClassifier, AlbertTokenClassifier])
@pytest.mark.parametrize("theirs", [None, "transformers", "keras-hub"])
def test_without_classes_no_file_is_blamed(
    make_classifier, tmp_path, task, theirs, monkeypatch
):
    preset = tmp_path / "preset"
    backbone = make_classifier().backbone
    if theirs is None:
        backbone.save_to_preset(preset)
        make_classifier().preprocessor.save_to_preset(preset)
    else:
        tokenizer = make_classifier().preprocessor.tokenizer
        export_checkpoint(backbone, preset, theirs, tokenizer)
    # No weights are read before.
    monkeypatch.setattr(AlbertBackbone, "load_weights", None)
    message = (
        r"^The number of classes is not known\. Pass num_classes=2, say, or labels=\[.*"
        rf"\. {re.escape(str(preset))} has no head of this task\.$"
    )
    with pytest.raises(ValueError, match=message):
        task.from_preset(preset)


CASES = {
    "classify": (small_classifier, ("the lamps",)),
    "choose": (small_chooser, ("the hill", "lamps or", ["rain", "bread"])),
    "tag": (lambda proto: small_tagger(proto, labels=["O", "a"]), ("the lamps",)),
    "answer": (small_reader, ("the hill", "old bread")),
    "fill_mask": (make_masked_lm, ("the [MASK]",)),
    "score_order": (make_pretrainer, ("the lamps", "old bread")),
    "embed": (small_embedder, ("the lamps",)),
}


def warned(method, *args):
    """Call a method and return the messages about heads."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        method(*args)
    found = [w for w in caught if "has random weights" in str(w.message)]
    assert {w.filename for w in found} <= {__file__}
    return [str(w.message) for w in found]


@pytest.mark.parametrize("name", CASES)
def test_every_task_warns_once(name, toy_proto):
    make, arguments = CASES[name]
    method = getattr(make(toy_proto), name)
    found = warned(method, *arguments)
    # An embedder has no head.
    assert len(found) == (name != "embed")
    assert all(f"`{name}`" in message for message in found)
    assert warned(method, *arguments) == []


@pytest.mark.parametrize("name", CASES)
def test_every_task_needs_a_preprocessor(name, toy_proto):
    make, arguments = CASES[name]
    task = make(toy_proto)
    task.preprocessor = None
    with pytest.raises(ValueError, match=r"no preprocessor\. Build it"):
        getattr(task, name)(*arguments)


def test_a_classifier_that_learned_or_was_loaded(make_classifier, tmp_path):

    learned = make_classifier()
    learned.compile("sgd")
    learned.train_on_batch(["the lamps", "rain"], [0, 1])
    assert warned(learned.classify, "the lamps") == []
    learned.save_to_preset(tmp_path)
    loaded = AlbertClassifier.from_preset(tmp_path)
    assert warned(loaded.classify, "the lamps") == []
    other = AlbertClassifier.from_preset(tmp_path, num_classes=3)
    assert len(warned(other.classify, "the lamps")) == 1


def test_the_parts_of_a_head_are_told_apart():
    pretrainer = AlbertPretrainer.from_preset("albert_tiny_en_uncased")
    assert warned(pretrainer.fill_mask, ("the [MASK] rose", "it set")) == []
    (message,) = warned(pretrainer.score_order, "It rained.", "He left.")
    assert "The head of this AlbertPretrainer that `score_order` uses" in message
    assert "call `fit`, or load a preset that was saved with the head" in message
