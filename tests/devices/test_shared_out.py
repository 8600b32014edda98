"""Two devices learn what one learns, from raw strings."""

import json

import keras
import numpy as np
import pytest

from tests.devices.shared_out import RUNS
from tests.programs import run_python
from tests.several_processes import virtual_devices

BACKEND = keras.config.backend()

pytestmark = pytest.mark.skipif(not RUNS, reason="Keras has no distribution on PyTorch")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the runs of a process with two devices came to."""
    path = tmp_path_factory.mktemp("shared_out") / "found.json"
    variables = {"KERAS_BACKEND": BACKEND, "CUDA_VISIBLE_DEVICES": "-1"}
    variables |= virtual_devices(2)
    run_python("-m", "tests.devices.shared_out", path, **variables)
    return json.loads(path.read_text(encoding="utf-8"))


def flat(run):
    assert "error" not in run, run["error"]
    return {
        f"{part} {key}": np.array(value)
        for part in ("history", "scores")
        for key, value in run.get(part, {}).items()
    }


@pytest.mark.parametrize(("name", "way"), RUNS)
def test_it_learns_what_one_device_learns(found, name, way):
    one, several = flat(found[name]["one"]), flat(found[name][way])
    assert set(one) == set(several)
    # It learned something, or the rest says nothing.
    first, last = np.ravel(one["history loss"])
    assert abs(first - one.get("scores loss", last)) > 1e-4
    outputs = (found[name][key].get("outputs", []) for key in ("one", way))
    for key, value in one.items():
        np.testing.assert_allclose(several[key], value, 1e-4, 1e-5, err_msg=key)
    for expected, got in zip(*outputs, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="scopes of tf.distribute")
def test_says_where_a_scope_was_forgotten(found):
    task, optimizer, metric = found["errors"]
    assert "made outside of the scope" in task
    assert "MirroredStrategy" in task
    assert "SGD outside of it" in optimizer
    assert "SparseCategoricalAccuracy outside of it" in metric
