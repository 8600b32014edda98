import signal

import keras
import numpy as np
import pytest

from keras_albert.training.devices import OneDevice
from keras_albert.training.recorder import (
    StopSignals,
    TrainingRecorder,
    resumable_fit,
)
from keras_albert.training.run_folder import RunFolder, TrainingCheckpoint


class TwoProcesses(OneDevice):
    """This process, and another one, where a batch takes a quarter of a second."""

    num_processes = 2

    def __init__(self, recorder, told_at):
        self.recorder, self.told_at, self.asked = recorder, told_at, []

    def sum(self, numbers):
        self.asked.append(self.recorder.done)
        told, _ = numbers
        return [told + (self.recorder.done >= self.told_at), 2 * 0.25]

    def barrier(self):
        """There is no other process."""


def test_processes_agree_once_a_second_and_stop_after_the_same_batch(tmp_path):
    inputs = keras.Input((2,))
    model = keras.Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse")
    batch = np.ones((4, 2), "float32"), np.ones((4, 1), "float32")
    lengths = {"num_batches": 20, "batches_per_row": 10, "batches_per_checkpoint": 99}
    stop = StopSignals()
    recorder = TrainingRecorder(
        RunFolder(tmp_path), None, stop, {}, seed=0, monitor=("loss", "min"), **lengths
    )
    recorder.devices = TwoProcesses(recorder, told_at=14)
    recorder.begin(None, model)
    with pytest.raises(KeyboardInterrupt):
        resumable_fit(model, recorder, lambda number: batch, verbose=0)
    # Four batches of a quarter of a second, and the end of a row.
    assert recorder.devices.asked == [1, 5, 9, 10, 14]
    assert stop.number == signal.SIGTERM
    assert TrainingCheckpoint.read(RunFolder(tmp_path).last).step == 14
