"""The callback that records a pretraining run."""

import importlib.util
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_albert.pretraining.settings.config import PretrainingConfig
from keras_albert.pretraining.settings.stage import Stage
from keras_albert.training.run_folder import RunFolder
from keras_albert.training.training_curve import Row
from keras_albert.training.training_recorder import StopSignals, TrainingRecorder


class PretrainingRecorder(TrainingRecorder):
    """A `TrainingRecorder` that counts updates and measures speed.

    Attributes:
        examples_per_batch: int. Examples that pass through the model at once.
        tokens_per_example: float. Used for the tokens per second.
    """

    def __init__(
        self,
        config: PretrainingConfig,
        folder: RunFolder,
        devices: Any,
        stop: StopSignals,
        identity: dict[str, Any],
    ) -> None:
        parts = config.accumulation_steps
        super().__init__(
            folder,
            devices,
            stop,
            identity,
            seed=config.seed,
            num_batches=config.steps * parts,
            batches_per_row=config.log_every * parts,
            batches_per_checkpoint=config.checkpoint_every * parts,
            batches_per_update=parts,
            remedy=(
                f"Resume with a learning rate below {config.peak_learning_rate:g} or a "
                f"clip_norm below {config.clip_norm:g}."
            ),
        )
        self.examples_per_batch = config.micro_batch_size
        self.tokens_per_example = 0.0
        self._started = (0.0, 0)
        self._ended = (0.0, -1)

    def begin_stage(self, stage: Stage) -> None:
        """Begin or resume a stage."""
        self.examples_per_batch = stage.config.micro_batch_size
        self.tokens_per_example = stage.tokens_per_example
        # Scores of rows of different lengths are not comparable.
        if self.done == stage.begin:
            self.forget_best()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin or resume a row."""
        super().on_epoch_begin(epoch, logs)
        self._started = (time.perf_counter(), self.done)

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        """Count a batch, and show the speed."""
        super().on_train_batch_end(batch, logs)
        logs.update(self._speed())

    def make_row(self, epoch: int, logs: dict[str, float]) -> Row:
        """Add the step, the rate and the speed; write the row for TensorBoard."""
        logs.update(self._speed())
        rate = float(self.model.optimizer.learning_rate)
        step = self.done // self.batches_per_update
        row = {"step": step, "learning_rate": rate, **self._cost(), **logs}
        if self.devices.is_chief:
            write_tensorboard_row(self.folder.path / "tensorboard", row)
        return row

    def _cost(self) -> dict[str, float]:
        """Return the tokens and the seconds of a row, also if it was interrupted."""
        begin = self.rows[-1]["step"] * self.batches_per_update if self.rows else 0
        examples = (self.done - begin) * self.examples_per_batch
        tokens = round(examples * self.tokens_per_example)
        return {"tokens": tokens, "seconds": examples / self._examples_per_second()}

    def _speed(self) -> dict[str, float]:
        rate = self._examples_per_second()
        tokens = rate * self.tokens_per_example
        return {"examples/s": round(rate, 1), "tokens/s": round(tokens)}

    def _examples_per_second(self) -> float:
        started, done = self._started
        # Measured up to the last batch, without the time of evaluation.
        if self._ended[1] != self.done:
            self._ended = (time.perf_counter(), self.done)
        examples = (self.done - done) * self.examples_per_batch
        return examples / max(self._ended[0] - started, 1e-9)


def write_tensorboard_row(directory: Path, row: Mapping[str, float]) -> None:
    """Append a row to TensorBoard's files, if the package `tensorboard` is installed.

    Keras' callback requires TensorFlow. Scores on held-out documents are written to a
    separate folder, under the same names, so that both appear in one chart.
    """
    if importlib.util.find_spec("tensorboard") is None:
        return
    values = {name: value for name, value in row.items() if name != "step"}
    held_out = {
        name.removeprefix("val_"): value
        for name, value in values.items()
        if name.startswith("val_")
    }
    train = {name: values[name] for name in values if not name.startswith("val_")}
    for folder, scalars in (("train", train), ("held_out", held_out)):
        if scalars:
            _append(directory / folder / "events.out.tfevents", row["step"], scalars)


def _append(path: Path, step: float, scalars: dict[str, float]) -> None:
    from tensorboard.compat.proto.event_pb2 import Event  # noqa: PLC0415  (an extra)
    from tensorboard.compat.proto.summary_pb2 import Summary  # noqa: PLC0415
    from tensorboard.summary.writer.record_writer import RecordWriter  # noqa: PLC0415

    values = [
        Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()
    ]
    events = [
        Event(wall_time=time.time(), step=int(step), summary=Summary(value=values))
    ]
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        events.insert(0, Event(wall_time=time.time(), file_version="brain.Event:2"))
    with path.open("ab") as file:
        writer = RecordWriter(file)
        for event in events:
            writer.write(event.SerializeToString())
