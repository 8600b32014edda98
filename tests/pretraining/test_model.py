"""Training steps at drawn depths."""

from itertools import cycle

import keras
import numpy as np
import pytest

from keras_albert.pretraining import PretrainingConfig, PretrainingData, model
from keras_albert.pretraining.model import (
    build_pretrainer,
    compile_pretrainer,
    draw_depth,
    train_at_depths,
)
from keras_albert.training.devices import choose_devices
from tests.one_backend import on_one_backend

DEPTHS = (2, 1, 2, 1)


@on_one_backend
def test_depths_depend_on_seed_and_step_and_are_uniform():
    def draws(**changed):
        config = PretrainingConfig(data="-", output="-", min_layers=10, **changed)
        return [draw_depth(config, step) for step in range(300)]

    drawn = draws()
    assert draws() == drawn
    assert draws(seed=1) != drawn
    counts = np.bincount(drawn, minlength=13)
    assert counts[:10].sum() == 0
    # Within 4 standard deviations of 100.
    assert all(67 < count < 133 for count in counts[10:])


@pytest.fixture
def made(settings, monkeypatch):
    """A function that makes a model of a number of layers, and batches for it."""
    # An update is then the gradient.
    monkeypatch.setattr(model, "build_optimizer", lambda _: keras.optimizers.SGD(1.0))
    changed = {"backbone": settings["backbone"] | {"dropout": 0.0}, "unroll": None}
    changed["backbone"]["attention_dropout"] = 0.0
    config = PretrainingConfig(output="-", **settings | changed)
    data = PretrainingData(config.data)

    def make(num_layers):
        task = build_pretrainer(config, data.tokenizer, 24, num_layers=num_layers)
        compile_pretrainer(task, config)
        return task

    batches = data.batches(8, 24)
    return make, [batches.batch(number) for number in range(len(DEPTHS))]


def test_a_step_is_that_of_a_model_of_its_depth(made):
    make, batches = made
    models = {depth: make(depth) for depth in set(DEPTHS)}
    weights = first = models[2].get_weights()
    for depth, (x, y, sample_weight) in zip(DEPTHS, batches, strict=True):
        models[depth].set_weights(weights)
        keras.Model.train_on_batch(models[depth], x, y, sample_weight)
        weights = models[depth].get_weights()

    task, devices, depths = make(2), choose_devices("none"), cycle(DEPTHS)
    task.set_weights(first)
    devices.prepare(task, batches[0])
    train_at_depths(task, range(1, 3), lambda: next(depths))
    encoder = task.backbone.encoder
    traced, check = [], encoder.check_depth

    def traced_check(num_layers):
        traced.append(num_layers)
        return check(num_layers)

    encoder.check_depth = traced_check
    fit(task, devices, batches)
    assert set(traced) == {1, 2}
    for found, expected in zip(task.get_weights(), weights, strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5)
    moved = [np.abs(a - b).max() for a, b in zip(weights, first, strict=True)]
    assert max(moved) > 0.01
    if keras.config.backend() != "torch":
        before = len(traced)
        fit(task, devices, batches)
        assert len(traced) == before
    assert task.backbone.num_layers == 2


def fit(task, devices, batches):
    given = devices.batches(iter(batches), batches[0])
    steps = {"steps_per_epoch": len(batches), "shuffle": False}
    keras.Model.fit(task, given, **steps, verbose=0)
