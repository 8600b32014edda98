"""Every method for one text equals transformers', and others are not measured."""

import argparse
import importlib

import numpy as np
import pytest

from keras_albert.text import train_vocabulary

pytest.importorskip("transformers")

SIZES = {
    "num_layers": 1,
    "num_heads": 2,
    "embedding_dim": 8,
    "hidden_dim": 16,
    "intermediate_dim": 32,
}
TEXTS = ["My card was declined.", "When does the parcel arrive, and where?", "Help me"]
MEASURED = ("classify", "tag", "answer")
CHECKED = ("embed", "fill_mask", "choose", "predict")


@pytest.fixture(scope="module")
def vocabulary():
    return train_vocabulary(TEXTS * 9, vocabulary_size=40)


@pytest.fixture
def one_text():
    return importlib.import_module("one_text")


@pytest.fixture
def methods():
    found = importlib.import_module("one_text_methods")
    assert sorted(found.METHODS) == sorted(MEASURED + CHECKED)
    return found


@pytest.mark.usefixtures("methods")
@pytest.mark.parametrize("name", MEASURED)
def test_a_method_is_compared(one_text, name, vocabulary, monkeypatch):
    monkeypatch.setattr(one_text, "read_vocabulary", lambda data: vocabulary)
    arguments = argparse.Namespace(
        size="tiny", data=None, repeats=2, clock="cpu", keras_hub=False
    )
    found = one_text.compare(name, TEXTS, arguments, **SIZES)
    assert list(found.costs) == ["keras_albert", "transformers"]
    assert all(len(costs) == 2 and min(costs) > 0 for costs in found.costs.values())
    assert found.amounts["transformers"] == found.amounts["keras_albert"] == 3
    assert "equal results for 3 texts" in found.notes[-1]
    first, second, ratio = found.notes[:3]
    assert first.startswith("keras_albert, ms of call 1: ")
    assert second.startswith("transformers, ms of call 1: ")
    assert ratio.startswith("calls 2 to 100: ")
    assert one_text.summarize(found).startswith(f"one text: {name}: ")


@pytest.mark.parametrize("name", ["predict", "fill_mask"])
def test_other_answers_are_not_measured(methods, tmp_path, name):
    peers, settings = map(importlib.import_module, ("peer_models", "settings"))
    method = methods.METHODS[name]
    task = methods.build(
        method, "tiny", lambda: settings.read_vocabulary(None), **SIZES
    )
    task.export_to_transformers(tmp_path / "transformers")
    peer = peers.TransformersModel(tmp_path, method.auto)
    inputs = [method.read(text) for text in TEXTS]
    assert method.check(task, peer, inputs) < 1e-5
    generator = np.random.default_rng(0)
    task.set_weights([w + generator.normal(size=w.shape) for w in task.get_weights()])
    with pytest.raises(ValueError, match="transformers"):
        method.check(task, peer, inputs)
