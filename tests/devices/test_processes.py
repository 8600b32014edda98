"""Several processes: what trains together, and what is refused before it begins."""

import copy
import functools
import json
import os

import numpy as np
import pandas as pd
import pytest

from keras_albert import AlbertClassifier
from keras_albert.devices import processes
from keras_albert.tasks import compile as module
from keras_albert.training.devices import choose_devices
from tests.devices.shared_out import CASES, TASKS, run
from tests.devices.together import own_part
from tests.several_processes import (
    BACKEND,
    environments,
    finish,
    start,
    virtual_devices,
)

TEXTS, LABELS = ["a good film", "a bad film"] * 2, ["pos", "neg"] * 2


def new_classifier():
    return AlbertClassifier.from_preset(
        "albert_tiny_en_uncased", num_classes=2, num_layers=1
    )


@pytest.fixture
def one_of_two(monkeypatch):
    for name, value in next(iter(environments(2))).items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("method", ["fit", "evaluate", "train_on_batch"])
def test_a_process_of_two_trains_no_model_of_its_own(one_of_two, monkeypatch, method):
    # As a launcher that PyTorch does not know would start it.
    monkeypatch.delenv("RANK", raising=False)
    classifier = new_classifier()
    before = classifier.get_weights()
    with pytest.raises(ValueError, match="one of 2 processes, each of which would"):
        getattr(classifier, method)(TEXTS, LABELS)
    assert classifier.labels is None
    for old, new in zip(before, classifier.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    # It needs no other process.
    assert len(classifier.predict(TEXTS, verbose=0)) == 4


def test_pretraining_on_one_device_neither(one_of_two):
    with pytest.raises(ValueError, match="'none', but 2 processes were started"):
        choose_devices("none")


class Remembering(processes.Processes):
    """A second process, of which the first one has passed what was passed before."""

    def __init__(self):
        super().__init__(1, 2)
        self.before = []

    def gather(self, numbers):
        self.before.append(numbers)
        return np.array([self.before[0], numbers])


@pytest.mark.parametrize(
    ("given", "other"),
    [
        (["a", "b"], ["ab", ""]),
        ([("a", 1), ("b", None)], [("a", 1), ("b", "None")]),
        ({"text": ["a"], "label": [1]}, {"text": ["a"], "label": [2]}),
        (np.arange(3), np.arange(3)[::-1]),
        (np.array(["a", "b"], object), np.array(["a", "c"], object)),
        (pd.DataFrame({"text": ["a", "b"]}), pd.DataFrame({"text": ["a", "c"]})),
        (iter([1]), [1]),
    ],
)
def test_processes_tell_what_differs(given, other):
    pair = Remembering()
    pair.check_same({"version": 1, "data": given})
    pair.check_same({"version": 1, "data": copy.copy(given)})
    with pytest.raises(
        ValueError, match=r"^Process 1 has different data from process 0.*!"
    ):
        pair.check_same({"version": 1, "data": other}, "Look!")


@pytest.mark.skipif(BACKEND != "torch", reason="the group of PyTorch")
def test_a_process_group_counts_more_than_the_environment(one_of_two, monkeypatch):
    import torch

    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 1)
    assert processes.num_processes() == 1


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


tensorflow_only = pytest.mark.skipif(BACKEND != "tensorflow", reason="tf.distribute")


@tensorflow_only
def test_strategies_that_do_not_train_in_step_are_refused_by_name(monkeypatch):
    import tensorflow as tf

    central = tf.distribute.experimental.CentralStorageStrategy()
    # The other one connects to its servers when it is made.
    server = object.__new__(tf.distribute.ParameterServerStrategy)
    for strategy in (central, server):
        name = rf"{type(strategy).__name__}\..* MirroredStrategy"
        monkeypatch.setattr(module, "current_strategy", lambda: strategy)  # noqa: B023
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


# What two processes train together, in each way of their backend.
TOGETHER = {
    "torch": {
        "default": [
            *(*TASKS, "uneven", "uneven_masks", "lonely", "clipped", "summed"),
            *("any_length", "tf_data"),
        ]
    },
    "jax": {
        "data_parallel": ["lonely", "tf_data"],
        "model_parallel": ["classifier", "contrastive"],
    },
    "tensorflow": {"default": ["classifier", "uneven_masks", "contrastive", "tf_data"]},
}[BACKEND]
if "KERAS_ALBERT_EVERY_TASK" in os.environ:
    # JAX and TensorFlow compile for minutes.
    for names in TOGETHER.values():
        names += [name for name in TASKS if name not in names]


@pytest.fixture(scope="module")
def expected():
    """What one process comes to, computed once for each case."""
    return functools.cache(lambda name: run(CASES[name]))


@pytest.mark.parametrize("way", TOGETHER)
def test_two_processes_learn_what_one_learns(tmp_path, expected, way):
    files = [tmp_path / f"{number}.json" for number in range(2)]
    running = start(
        "tests.devices.together",
        [(file, way, *TOGETHER[way]) for file in files],
        **virtual_devices(2),
    )
    # Meanwhile.
    one = {name: expected(name) for name in TOGETHER[way]}
    finish(running)
    for file in files:
        found = json.loads(file.read_text())
        for name, result in one.items():
            assert_same(name, found[name], result)
        if way == "model_parallel":
            assert "Other processes have parts of" in found["refused"]
            assert "batch axis has at least one entry for each" in found["refused"]
        else:
            for got, one_got in zip(found["own part"], own_part(), strict=True):
                np.testing.assert_allclose(got, one_got, 1e-4)
            said = found["refusals"]
            data, labels, arguments, batches, settings, *weights = said
            assert len(weights) == (BACKEND != "torch")
            if BACKEND == "tensorflow":
                assert "Process 1 has different weights from process 0" in weights[0]
            assert "Process 1 has different data from process 0" in data
            assert "auto_shard=False" in data
            assert "different data" in labels
            assert "different arguments" in arguments
            assert "different batches" in batches
            assert "different settings of the AlbertClassifier" in settings
    if way == "model_parallel":
        saved = AlbertClassifier.from_preset(f"{files[0]}.preset").get_weights()
        for got, value in zip(saved, one["classifier"]["weights"], strict=True):
            np.testing.assert_allclose(got, value, 1e-3, 1e-4)


def assert_same(name, found, one):
    assert "error" not in found, f"{name}: {found['error']}"
    assert found.keys() == one.keys()
    for part in ("history", "scores"):
        assert found.get(part, {}).keys() == one.get(part, {}).keys()
        for key, value in one.get(part, {}).items():
            message = f"{name} {part} {key}"
            got = found[part][key]
            np.testing.assert_allclose(got, value, 1e-4, 1e-5, err_msg=message)
    for part in ("outputs", "weights"):
        for got, value in zip(found.get(part, []), one.get(part, []), strict=True):
            np.testing.assert_allclose(got, value, 1e-3, 1e-4, err_msg=f"{name} {part}")
