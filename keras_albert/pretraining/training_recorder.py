"""What is kept of a training while it runs."""

import math
import time
from typing import Any

import keras
import numpy as np

from keras_albert.pretraining.pretraining_config import PretrainingConfig
from keras_albert.pretraining.run_folder import RunFolder
from keras_albert.pretraining.stop_signals import StopSignals
from keras_albert.pretraining.tensorboard_rows import write_tensorboard_row
from keras_albert.pretraining.training_checkpoint import Arrays, TrainingCheckpoint

# The best weights are those that have the lowest of these.
_MONITOR = "val_loss"


class TrainingRecorder(keras.callbacks.Callback):
    """Counts, writes the curve and the checkpoints, and ends what went wrong.

    Keras' epoch is the interval of one row. A checkpoint within it holds the metrics
    as well, so that the row comes out the same after a stop.

    Args:
        config: `PretrainingConfig`.
        folder: `RunFolder`.
        devices: An object with the members of `OneDevice`.
        stop: `StopSignals`.
        identity: dict. What is kept with each checkpoint to tell runs apart.
        tokens_per_example: float. For the tokens a second.
    """

    def __init__(
        self,
        config: PretrainingConfig,
        folder: RunFolder,
        devices: Any,
        stop: StopSignals,
        identity: dict[str, Any],
        tokens_per_example: float,
    ) -> None:
        super().__init__()
        self.config = config
        self.folder = folder
        self.devices = devices
        self.stop = stop
        self.identity = identity
        self.tokens_per_example = tokens_per_example
        # Batches that the model has learned from.
        self.done = 0
        self.best = math.inf
        self._metrics: Arrays | None = None
        self._started = (0.0, 0)

    def restore(self, checkpoint: TrainingCheckpoint, task: Any) -> None:
        """Go on from a checkpoint.

        Args:
            checkpoint: `TrainingCheckpoint`.
            task: The model, whose optimizer is built.
        """
        self.done = checkpoint.step
        self.best = checkpoint.notes["best"]
        self.devices.assign(task.variables, checkpoint.groups["model"])
        self.devices.assign(task.optimizer.variables, checkpoint.groups["optimizer"])
        # Keras sets these to zero before the first batch.
        self._metrics = checkpoint.groups.get("metrics")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin a row, or go on with one."""
        if self._metrics is not None:
            self.devices.assign(self.model.metrics_variables, self._metrics)
            self._metrics = None
        self._started = (time.perf_counter(), self.done)

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        """Count a batch; every now and then write a checkpoint."""
        self.done += 1
        logs.update(self._speed())
        if not math.isfinite(logs["loss"]):
            raise self._not_finite("The loss is infinite or no number")
        updates, rest = divmod(self.done, self.config.accumulation_steps)
        if rest:
            return
        ends_row = updates % self.config.log_every == 0 or updates == self.config.steps
        due = updates % self.config.checkpoint_every == 0 and not ends_row
        if self.stop.requested and not ends_row:
            self._save(with_metrics=True)
            raise KeyboardInterrupt
        if due:
            self._save(with_metrics=True)

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        """Write a row, and then a checkpoint that is not without it."""
        logs.update(self._speed())
        updates = self.done // self.config.accumulation_steps
        rate = float(self.model.optimizer.learning_rate)
        if self.devices.is_chief:
            row = {"step": updates, "learning_rate": rate, **logs}
            self.folder.curve.append(row)
            write_tensorboard_row(self.folder.path / "tensorboard", row)
        if logs.get(_MONITOR, math.inf) < self.best:
            self.best = logs[_MONITOR]
            self._save_best()
        is_last = updates == self.config.steps
        if is_last or self.stop.requested or not updates % self.config.checkpoint_every:
            self._save(with_metrics=False)
        if self.stop.requested and not is_last:
            raise KeyboardInterrupt

    def _speed(self) -> dict[str, float]:
        started, done = self._started
        # Frozen where the batches end: evaluation is not training.
        if self._at != self.done:
            self._at, self._until = self.done, time.perf_counter()
        examples = (self.done - done) * self.config.micro_batch_size
        rate = examples / max(self._until - started, 1e-9)
        tokens = rate * self.tokens_per_example
        return {"examples/s": round(rate, 1), "tokens/s": round(tokens)}

    _at = -1
    _until = 0.0

    def _save(self, with_metrics: bool) -> None:
        model = self.model
        groups = {"model": model.variables, "optimizer": model.optimizer.variables}
        if with_metrics:
            groups["metrics"] = model.metrics_variables
        values = {name: self.devices.values(each) for name, each in groups.items()}
        self._check(values["model"])
        notes = {"best": self.best, "identity": self.identity}
        if self.devices.is_chief:
            TrainingCheckpoint(self.done, values, notes).write(self.folder.last)
        self.devices.barrier()

    def _save_best(self) -> None:
        values = self.devices.values(self.model.variables)
        self._check(values)
        if self.devices.is_chief:
            notes = {_MONITOR: self.best}
            TrainingCheckpoint(self.done, {"model": values}, notes).write(
                self.folder.best
            )

    def _check(self, values: Arrays) -> None:
        floats = (array for array in values if array.dtype.kind == "f")
        if not all(np.isfinite(array).all() for array in floats):
            raise self._not_finite("A weight is infinite or no number")

    def _not_finite(self, what: str) -> FloatingPointError:
        updates = -(-self.done // self.config.accumulation_steps)
        rate, kept = self.config.peak_learning_rate, "There is no checkpoint before it"
        if self.folder.last.is_file():
            kept = f"{self.folder.last} keeps the last good weights"
        return FloatingPointError(
            f"{what} at step {updates}. {kept}. Go on with a lower learning rate than "
            f"{rate:g} or a lower clip_norm than {self.config.clip_norm:g}."
        )
