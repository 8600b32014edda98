import signal
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from keras_albert.training.devices import OneDevice
from keras_albert.training.recorder import StopSignals, TrainingRecorder, resumable_fit
from keras_albert.training.run_folder import RunFolder, TrainingCheckpoint


class TwoProcesses(OneDevice):
    """This process, and another one, where a batch takes a quarter of a second."""

    num_processes = 2

    def __init__(self, recorder, told_at):
        self.recorder, self.told_at, self.asked = recorder, told_at, []

    def sum(self, numbers):
        self.asked.append(self.recorder.done)
        told, due, _ = numbers
        done = self.recorder.done
        # By its clock, a checkpoint is due after the fifth batch.
        return [told + (done >= self.told_at), due + (done == 5), 2 * 0.25]

    def on_chief(self, work):
        work()


def stopped_run(path, told_at):
    """Train until the other process is told to stop, and return the recorder."""
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    batch = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")
    lengths = {"num_batches": 20, "batches_per_row": 10, "batches_per_checkpoint": 99}
    stop = StopSignals()
    recorder = TrainingRecorder(
        RunFolder(path), None, stop, {}, seed=0, monitor=("loss", "min"), **lengths
    )
    recorder.devices = TwoProcesses(recorder, told_at)
    recorder.start(None, model)
    with pytest.raises(KeyboardInterrupt):
        resumable_fit(model, recorder, lambda number: batch, verbose=0)
    assert stop.number == signal.SIGTERM
    return recorder


def test_processes_agree_once_a_second_and_save_and_stop_after_the_same_batch(
    tmp_path, monkeypatch
):
    steps, write = [], TrainingCheckpoint.write

    def record(checkpoint, path):
        steps.append(checkpoint.step)
        write(checkpoint, path)

    monkeypatch.setattr(TrainingCheckpoint, "write", record)
    recorder = stopped_run(tmp_path, told_at=14)
    # The start, four batches of a quarter of a second, and the end of a row.
    assert recorder.devices.asked == [0, 1, 5, 9, 10, 14]
    assert steps == [5, 14]
    assert TrainingCheckpoint.read(RunFolder(tmp_path).last).step == 14


def test_told_to_stop_before_the_first_batch(tmp_path):
    recorder = stopped_run(tmp_path, told_at=0)
    assert recorder.devices.asked == [0]
    assert not RunFolder(tmp_path).last.exists()


def test_nested_blocks_record_signals_until_the_outer_one_ends():
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as stop:
        # As JAX does when it connects processes.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with stop:
            assert not stop.requested
        signal.raise_signal(signal.SIGTERM)
        assert stop.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("processes", [1, 2])
def test_a_signal_is_recorded_while_a_library_with_a_handler_connects(processes):
    before, lost, stop = signal.getsignal(signal.SIGTERM), [], StopSignals()
    devices = OneDevice()
    devices.processes = SimpleNamespace(count=processes)

    def connect():
        # As TensorFlow does.
        signal.signal(signal.SIGTERM, lambda *_: lost.append(1))
        signal.raise_signal(signal.SIGTERM)
        return devices

    with stop.while_connected(connect):
        assert stop.number == signal.SIGTERM
        assert (signal.getsignal(signal.SIGTERM) is before) == (processes == 1)
    assert signal.getsignal(signal.SIGTERM) is before
    assert not lost
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


class FailedElsewhere(OneDevice):
    """A process that has to wait for the first one, which fails."""

    is_chief = False

    def sum(self, numbers):
        return [numbers[0] + 1]


def test_what_fails_in_the_first_process_raises_in_all():
    def write():
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        OneDevice().on_chief(write)
    with pytest.raises(RuntimeError, match="Another process has failed"):
        FailedElsewhere().on_chief(write)
