"""The callback that records a pretraining run."""

import time
from typing import Any

from keras_albert.pretraining.run.tensorboard import write_tensorboard_row
from keras_albert.pretraining.settings.config import PretrainingConfig
from keras_albert.pretraining.settings.stage import Stage
from keras_albert.training.run_folder import RunFolder
from keras_albert.training.stop_signals import StopSignals
from keras_albert.training.training_curve import Row
from keras_albert.training.training_recorder import TrainingRecorder


class PretrainingRecorder(TrainingRecorder):
    """A `TrainingRecorder` that counts updates and measures speed.

    Args:
        config: `PretrainingConfig`.
        folder: As in `TrainingRecorder`.
        devices: As in `TrainingRecorder`.
        stop: As in `TrainingRecorder`.
        identity: As in `TrainingRecorder`.

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
            remedy="Go on with a lower learning rate than "
            f"{config.peak_learning_rate:g} or a lower clip_norm than "
            f"{config.clip_norm:g}.",
        )
        self.examples_per_batch = config.micro_batch_size
        self.tokens_per_example = 0.0
        self._started = (0.0, 0)
        self._ended = (0.0, -1)

    def begin_stage(self, stage: Stage) -> None:
        """Begin or resume a stage.

        Args:
            stage: `Stage`.
        """
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
        row = {"step": step, "learning_rate": rate, **logs}
        if self.devices.is_chief:
            write_tensorboard_row(self.folder.path / "tensorboard", row)
        return row

    def _speed(self) -> dict[str, float]:
        started, done = self._started
        # Measured up to the last batch, without the time of evaluation.
        if self._ended[1] != self.done:
            self._ended = (time.perf_counter(), self.done)
        examples = (self.done - done) * self.examples_per_batch
        rate = examples / max(self._ended[0] - started, 1e-9)
        tokens = rate * self.tokens_per_example
        return {"examples/s": round(rate, 1), "tokens/s": round(tokens)}
