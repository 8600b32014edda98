"""After any interruption, the same call resumes the run with the same result."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from keras_albert.pretraining import PretrainingBatches, PretrainingConfig, pretrain
from keras_albert.pretraining.run import write_tensorboard_row
from keras_albert.training.run_folder import RunFolder, TrainingCheckpoint
from keras_albert.utils.remote import upload
from tests.one_backend import on_one_backend
from tests.pretraining.same_run import assert_same_run, curve

# The tests of stages resume a stopped run on each backend.
pytestmark = on_one_backend


def start(path):
    return subprocess.Popen(
        [sys.executable, "-m", "keras_albert", "pretrain", "--config", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_rows(process, folder, count):
    while len(folder.curve.rows()) < count:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)


def test_killed_at_random_it_comes_out_the_same(settings, whole_run, tmp_path):
    folder = RunFolder(tmp_path / "run")
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(settings | {"output": str(folder.path)}))
    for number, moment in enumerate(np.random.default_rng().uniform(0, 0.2, size=3)):
        process = start(path)
        wait_for_rows(process, folder, number + 1)
        time.sleep(moment)
        process.kill()
        process.communicate()
        assert not folder.preset.exists(), "it was killed too late to test anything"
    process = start(path)
    printed = process.communicate()[0]
    assert process.returncode == 0, printed
    assert_same_run(folder, whole_run[0])
    assert (folder.preset / "README.md").is_file()


@pytest.fixture
def at_batch(monkeypatch):
    """A dict of functions, called when the batch of their number is made."""
    events = {}
    make = PretrainingBatches.batch

    def batch(self, step, *shard):
        made = make(self, step, *shard)
        if self.shuffle and step in events:
            made = events[step](made) or made
        return made

    monkeypatch.setattr(PretrainingBatches, "batch", batch)
    return events


def config_of(settings, output, **changed):
    return PretrainingConfig(**settings | {"output": str(output)} | changed)


def test_a_signal_ends_it_with_a_checkpoint(settings, whole_run, at_batch, tmp_path):
    config = config_of(settings, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")
    # Batches are made in advance: training is at step 40 to 46 when the signal comes.
    at_batch[45] = lambda batch: signal.raise_signal(signal.SIGINT)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        pretrain(config, verbose=0)
    assert signal.getsignal(signal.SIGINT) == before
    checkpoint = TrainingCheckpoint.read(folder.last)
    # Not the checkpoint of the last interval; between updates of the weights.
    assert 40 <= checkpoint.step <= 46
    assert checkpoint.step % 2 == 0
    at_batch.clear()
    pretrain(config, verbose=0)
    assert_same_run(folder, whole_run[0])


def test_at_an_address_another_machine_resumes_it(
    settings, whole_run, at_batch, prepared, tmp_path, monkeypatch
):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    upload(prepared, "memory://data")
    config = config_of(settings, "memory://run", data="memory://data")
    at_batch[45] = lambda batch: signal.raise_signal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        pretrain(config, verbose=0)
    at_batch.clear()
    # All that the first run had on this machine is gone.
    with RunFolder.at("memory://run") as folder:
        assert 40 <= TrainingCheckpoint.read(folder.last).step <= 46
        assert not folder.preset.exists()
    assert pretrain(config, verbose=0) == whole_run[1]
    with RunFolder.at("memory://run") as folder:
        assert_same_run(folder, whole_run[0])
        for name in ("report.json", "preset/config.json", "tensorboard"):
            assert (folder.path / name).exists()
    with pytest.raises(ValueError, match=r"^memory://run/preset already exists"):
        pretrain(config, verbose=0)


def test_a_loss_that_is_no_number_ends_it(settings, whole_run, at_batch, tmp_path):
    config = config_of(settings, tmp_path / "run")
    folder = RunFolder(tmp_path / "run")

    def spoil(batch):
        x, y, weights = batch
        return x, y, {name: array * np.nan for name, array in weights.items()}

    at_batch[50] = spoil
    message = r"at step 26\. .*contains the last finite"
    with pytest.raises(FloatingPointError, match=message):
        pretrain(config, verbose=0)
    kept = TrainingCheckpoint.read(folder.last)
    assert kept.step == 42
    arrays = [array for group in kept.groups.values() for array in group]
    assert all(np.isfinite(array).all() for array in arrays)
    at_batch.clear()
    pretrain(config, verbose=0)
    assert_same_run(folder, whole_run[0])


def test_other_settings_are_another_run(settings, at_batch, tmp_path):
    at_batch[20] = lambda batch: signal.raise_signal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        pretrain(config_of(settings, tmp_path / "run"), verbose=0)
    at_batch.clear()
    changed = config_of(settings, tmp_path / "run", batch_size=8, seed=1)
    with pytest.raises(ValueError, match=r"batch_size was 16 and is 8; seed was 0 and"):
        pretrain(changed, verbose=0)
    # Settings that do not affect the result, or that help a diverging loss, may change.
    changed = config_of(settings, tmp_path / "run", learning_rate=0.001, remat=True)
    pretrain(changed, verbose=0)
    steps = [row["step"] for row in curve(RunFolder(tmp_path / "run"))]
    assert steps == list(range(10, 61, 10))


def test_rows_are_read_by_tensorboard(tmp_path):
    write_tensorboard_row(tmp_path, {"step": 10, "loss": 2.0})
    write_tensorboard_row(tmp_path, {"step": 20, "loss": 1.5, "val_loss": 1.75})
    found = {
        folder.name: [
            (event.step, value.tag, value.tensor.float_val[0])
            for event in EventFileLoader(str(folder / "events.out.tfevents")).Load()
            for value in event.summary.value
        ]
        for folder in tmp_path.iterdir()
    }
    assert found == {
        "train": [(10, "loss", 2.0), (20, "loss", 1.5)],
        "held_out": [(20, "loss", 1.75)],
    }
