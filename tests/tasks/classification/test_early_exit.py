"""Layers that are run one by one: traced on PyTorch, in the model's precision."""

import keras
import numpy as np
import pytest

from keras_albert.tasks.base import torch_program
from keras_albert.tasks.classification.early_exit import current_early_exit
from tests.tasks.classification.exit_models import (
    add_lora,
    scale,
    spread,
)

CHANGES = {
    "none": lambda classifier: None,
    "weights": lambda classifier: scale(classifier, 1.0),
    "lora": add_lora,
    "int8": lambda classifier: classifier.quantize("int8"),
}


@pytest.mark.skipif(keras.config.backend() != "torch", reason="only PyTorch traces")
@pytest.mark.parametrize("change", CHANGES)
def test_traced_layers_answer_as_eager_ones(make, toy, change, monkeypatch):
    # Of all lengths.
    texts = [" ".join(toy[0][:n]) for n in range(1, 5)] + toy[0][:16]
    rank = 2 if change in ("none", "int8") else None
    classifier = spread(make(num_classes=3, adapter_rank=rank), texts)

    def predict():
        return [
            classifier.predict(texts, size, **rule, return_depths=True, verbose=0)
            for size in (1, 7, 20)
            for rule in ({"patience": 1}, {"patience": 2}, {"threshold": 0.7})
        ]

    def programs():
        return current_early_exit(classifier).traced.programs

    monkeypatch.setattr(torch_program, "EAGER_BATCHES", 2)
    assert any(len(set(depths)) > 1 for _, depths in predict())
    assert all(programs()["exits"])
    CHANGES[change](classifier)
    found = predict()
    assert all(programs()["exits"])
    early = current_early_exit(classifier)
    monkeypatch.setattr(early.traced, "find", lambda *arguments: None)
    expected = predict()
    assert current_early_exit(classifier) is early
    for (outputs, depths), (eager, eager_depths) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(depths, eager_depths)
        np.testing.assert_allclose(outputs, eager, atol=1e-6)


@pytest.mark.skipif(keras.config.backend() != "torch", reason="only PyTorch traces")
def test_layers_are_traced_after_small_batches(make, toy, monkeypatch):
    monkeypatch.setattr(torch_program, "EAGER_BATCHES", 3)
    monkeypatch.setattr(torch_program, "SMALL_BATCH", 64)
    classifier = make()

    def is_traced(texts):
        classifier.predict(texts, patience=1, verbose=0)
        return "exits" in current_early_exit(classifier).traced.programs

    assert not any(is_traced(toy[0][:32]) for _ in range(4))
    assert [is_traced(toy[0][:1]) for _ in range(3)] == [False, False, True]
    classifier.compile(run_eagerly=True)
    assert not any(is_traced(toy[0][:1]) for _ in range(4))


def test_texts_leave_in_the_precision_of_the_model(make, toy):
    classifier = make(dtype="mixed_bfloat16")
    texts = toy[0][:8]
    outputs, depths = classifier.predict(
        texts, patience=1, return_depths=True, verbose=0
    )
    for depth in set(depths):
        expected = classifier.predict(texts, num_layers=int(depth), verbose=0)
        np.testing.assert_allclose(
            outputs[depths == depth], expected[depths == depth], atol=2e-2
        )
