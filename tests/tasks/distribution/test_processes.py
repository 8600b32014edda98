"""Several processes: what trains together, and what is refused before it begins."""

import contextlib
import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_albert import AlbertClassifier
from keras_albert.pretraining.devices import choose_devices
from keras_albert.tasks.distribution import strategy as module
from tests.several_processes import BACKEND, environments

TEXTS, LABELS = ["a good film", "a bad film"] * 2, ["pos", "neg"] * 2


def new_classifier():
    return AlbertClassifier.from_preset(
        "albert_tiny_en_uncased", num_classes=2, num_layers=1
    )


@pytest.fixture(scope="module")
def classifier():
    return new_classifier()


@pytest.fixture
def one_of_two(monkeypatch):
    for name, value in next(iter(environments(2))).items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("method", ["fit", "train_on_batch"])
def test_a_process_of_two_trains_no_model_of_its_own(classifier, one_of_two, method):
    before = classifier.get_weights()
    with pytest.raises(ValueError, match="one of 2 processes, each of which would"):
        getattr(classifier, method)(TEXTS, LABELS)
    assert classifier.labels is None
    for old, new in zip(before, classifier.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    # They need no other process.
    assert len(classifier.predict(TEXTS, verbose=0)) == 4
    assert classifier.evaluate(TEXTS, [0, 1, 0, 1], verbose=0)


def test_pretraining_on_one_device_neither(one_of_two):
    with pytest.raises(ValueError, match="'none', and 2 processes were started"):
        choose_devices("none")


@pytest.mark.skipif(BACKEND != "torch", reason="the group of PyTorch")
def test_a_process_group_counts_more_than_the_environment(one_of_two, monkeypatch):
    import torch

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 1)
    assert module.num_processes() == 1


@pytest.mark.skipif(BACKEND != "torch", reason="FSDP is of PyTorch")
def test_sharded_parameters_are_refused(tmp_path):
    import torch

    store = f"file://{tmp_path / 'store'}"
    group = {"init_method": store, "rank": 0, "world_size": 1}
    torch.distributed.init_process_group("gloo", **group)
    try:
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        with pytest.raises(ValueError, match=r"`fully_shard` replaces parameters"):
            torch.distributed.fsdp.fully_shard(new_classifier(), mesh=mesh)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.skipif(BACKEND != "jax", reason="keras.distribution")
def test_devices_of_other_processes_are_not_used(classifier, monkeypatch):
    monkeypatch.setattr(module, "num_processes", lambda: 2)
    distribution = keras.distribution.DataParallel()
    for method in ("fit", "evaluate", "predict"):
        targets = [] if method == "predict" else [LABELS]
        with (
            distribution.scope(),
            pytest.raises(ValueError, match="Keras spans 2 processes"),
        ):
            getattr(classifier, method)(TEXTS, *targets, verbose=0)


tensorflow_only = pytest.mark.skipif(BACKEND != "tensorflow", reason="tf.distribute")


@tensorflow_only
def test_strategies_that_do_not_train_in_step_are_refused_by_name(monkeypatch):
    import tensorflow as tf

    central = tf.distribute.experimental.CentralStorageStrategy()
    # The other one connects to its servers when it is made.
    server = object.__new__(tf.distribute.ParameterServerStrategy)
    for strategy in (central, server):
        name = rf"{type(strategy).__name__}\..* MirroredStrategy"
        monkeypatch.setattr(module, "_current_strategy", lambda: strategy)  # noqa: B023
        with pytest.raises(ValueError, match=name):
            new_classifier()


@tensorflow_only
def test_one_device_of_a_strategy_trains():
    import tensorflow as tf

    with tf.distribute.OneDeviceStrategy("CPU:0").scope():
        task = new_classifier()
    before = task.get_weights()
    task.fit(TEXTS, [1, 0] * 2, epochs=2, verbose=0)
    pairs = zip(before, task.get_weights(), strict=True)
    assert any(np.abs(new - old).max() > 0 for old, new in pairs)


@tensorflow_only
def test_workers_report_what_one_device_reports(tmp_path):
    from tests.tasks.distribution.one_worker import learn

    files = [tmp_path / f"{number}.json" for number in range(2)]
    program = [sys.executable, "-m", "tests.tasks.distribution.one_worker"]
    running = [
        subprocess.Popen(
            [*program, str(file)],
            env=os.environ | each,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for file, each in zip(files, environments(2), strict=True)
    ]
    expected = learn(contextlib.nullcontext(), None)
    for worker in running:
        printed = worker.communicate(timeout=300)[0]
        assert not worker.returncode, printed[-3000:]
    for file in files:
        for got, one in zip(json.loads(file.read_text()), expected, strict=True):
            assert set(got) == set(one) == {"loss", "accuracy"}
            for key, value in one.items():
                np.testing.assert_allclose(got[key], value, 1e-4, err_msg=key)
