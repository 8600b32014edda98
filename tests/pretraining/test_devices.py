"""A run has the same result on any number of devices and processes."""

import json

import keras
import numpy as np
import pytest

from benchmarks.lower_step import lower_training_step
from keras_albert import AlbertBackbone, AlbertPretrainer
from keras_albert.pretraining import PretrainingConfig, pretrain
from keras_albert.pretraining.model import compile_pretrainer
from keras_albert.training.devices import choose_devices
from keras_albert.training.run_folder import RunFolder, TrainingCheckpoint
from tests.several_processes import (
    BACKEND,
    finish,
    start,
    start_with_torchrun,
    virtual_devices,
)

SPEEDS = ("examples/s", "tokens/s", "seconds")

# Name, devices per process, processes.
LAYOUTS = {
    "tensorflow": [("data_parallel", 2, 1), ("data_parallel", 1, 2)],
    "jax": [("data_parallel", 2, 1), ("model_parallel:2", 2, 2)],
    "torch": [("data_parallel", 1, 2)],
}


def start_run(given, path, processes):
    path.write_text(json.dumps(given))
    module = "tests.pretraining.one_process"
    variables = virtual_devices(given["devices"])
    if BACKEND == "torch" and given["stops_at"] is None:
        return start_with_torchrun(module, [path], **variables)
    return start(module, [[path]] * processes, **variables)


def die(running):
    running[0].communicate(timeout=300)
    assert running[0].returncode
    for process in running[1:]:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def shared(settings):
    """Settings that reveal any mistake of the replicas."""
    backbone = settings["backbone"] | {"dropout": 0.0, "attention_dropout": 0.0}
    return settings | {
        "backbone": backbone,
        "batch_size": 16,
        "steps": 12,
        "accumulation_steps": 2,
        "min_layers": 1,
        "ema_momentum": 0.9,
        "clip_norm": 0.1,
        "log_every": 3,
        "evaluate_every": 6,
        "checkpoint_every": 5,
    }


@pytest.fixture(scope="module")
def learned_by_one(shared, tmp_path_factory):
    """The run of one device in one process."""
    output = tmp_path_factory.mktemp("one") / "run"
    pretrain(PretrainingConfig(output=str(output), **shared), verbose=0)
    return RunFolder(output)


@pytest.mark.parametrize(("name", "devices", "processes"), LAYOUTS[BACKEND])
def test_replicas_learn_as_one(
    shared, learned_by_one, tmp_path, name, devices, processes
):
    settings = shared | {"distribution": name, "output": str(tmp_path / "run")}
    given = {"settings": settings, "devices": devices}
    given |= {"dies_at": None, "stops_at": None}
    path = tmp_path / "given.json"
    if processes > 1:
        # All save the same step and end, before the first checkpoint that is due.
        stopped = start_run(given | {"stops_at": 4}, path, processes)
        for process in stopped:
            printed = process.communicate(timeout=120)[0]
            assert process.returncode, printed
            assert "KeyboardInterrupt" in printed
            for fact in ("versions", "settings", "preset", "prepared data"):
                told = f"Process 1 has different {fact} from process 0"
                assert told in printed or BACKEND == "tensorflow"
        assert TrainingCheckpoint.read(RunFolder(tmp_path / "run").last).step < 10
        # After the first checkpoint, from which all resume.
        given["dies_at"] = 20
        if BACKEND != "torch":
            die(start_run(given, path, processes))
            assert RunFolder(tmp_path / "run").last.is_file()
            given["dies_at"] = None
    printed = finish(start_run(given, path, processes))
    if given["dies_at"] is not None:
        assert "exitcode: -9" in printed[0]
    found, expected = RunFolder(tmp_path / "run"), learned_by_one
    assert (found.preset / "config.json").is_file()
    rows = found.curve.rows()
    assert len(rows) == 4
    for row, other in zip(rows, expected.curve.rows(), strict=True):
        assert set(row) == set(other)
        for key in set(row) - set(SPEEDS):
            np.testing.assert_allclose(row[key], other[key], rtol=2e-5, err_msg=key)
    a, b = (TrainingCheckpoint.read(folder.last) for folder in (found, expected))
    for x, y in zip(a.groups["model"], b.groups["model"], strict=True):
        np.testing.assert_allclose(x, y, atol=2e-4)


@pytest.mark.parametrize("name", ["several", "data_parallel:2", "model_parallel:many"])
def test_names_what_there_is(name):
    message = r"`distribution` must be one of 'none'.*Received"
    with pytest.raises(ValueError, match=message):
        choose_devices(name)


@pytest.mark.skipif(BACKEND != "torch", reason="PyTorch's processes")
def test_processes_are_started_by_torchrun():
    with pytest.raises(ValueError, match="torchrun"):
        choose_devices("data_parallel")


@pytest.mark.skipif(BACKEND != "jax", reason="the layout of keras.distribution")
def test_parts_divide_the_devices():
    with pytest.raises(ValueError, match="1 devices cannot be divided into groups"):
        choose_devices("model_parallel:3")


ROWS, LENGTH, SLOTS = 4, 16, 3


@pytest.fixture
def pretrainer():
    backbone = AlbertBackbone(
        vocabulary_size=50,
        num_layers=3,
        num_heads=2,
        embedding_dim=8,
        hidden_dim=16,
        intermediate_dim=32,
        remat=True,
        unroll=False,
        dtype="mixed_bfloat16",
    )
    model = AlbertPretrainer(backbone)
    # A rate at which three steps have an effect in bfloat16.
    settings = {"optimizer": "lamb", "learning_rate": 0.05, "warmup_steps": 0}
    compile_pretrainer(model, PretrainingConfig(data="-", output="-", **settings))
    return model


@pytest.mark.skipif(BACKEND != "jax", reason="only JAX lowers without running")
def test_the_step_is_all_of_it_with_static_shapes(pretrainer):
    lowered = lower_training_step(pretrainer, ROWS, LENGTH, SLOTS)
    text = lowered.as_text()
    assert f"tensor<{ROWS}x{LENGTH}x16xbf16>" in text
    assert "tensor<?" not in text
    memory = lowered.compile().memory_analysis()
    variables = pretrainer.variables + pretrainer.optimizer.variables
    state = sum(4 * int(np.prod(v.shape)) for v in variables)
    # The arguments include weights and both moments, and are donated to the step.
    assert memory.argument_size_in_bytes > state
    assert memory.alias_size_in_bytes >= state


@pytest.mark.skipif(BACKEND != "tensorflow", reason="XLA under TensorFlow")
def test_the_step_compiles_under_xla(pretrainer):
    pretrainer.jit_compile = True
    devices = choose_devices("none")
    generator = np.random.default_rng(0)
    ids = generator.integers(5, 50, (ROWS, LENGTH), "int32")
    x = {
        "token_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "padding_mask": np.ones_like(ids),
        "mask_positions": np.tile(np.arange(SLOTS, dtype="int32"), (ROWS, 1)),
    }
    y = {"masked_lm": ids[:, :SLOTS], "sentence_order": ids[:, 0] % 2}
    weights = keras.tree.map_structure(lambda a: np.ones(a.shape, "float32"), y)
    batch = (x, y, weights)
    devices.prepare(pretrainer, batch)
    data = devices.batches(iter([batch] * 3), batch)
    history = keras.Model.fit(
        pretrainer, data, steps_per_epoch=1, epochs=3, shuffle=False, verbose=0
    )
    losses = history.history["loss"]
    assert losses[0] - 0.01 > losses[-1] > 0
