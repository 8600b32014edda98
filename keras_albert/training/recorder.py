"""Training that is recorded, and resumed where it was interrupted."""

import math
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, Self

import keras
import numpy as np

from keras_albert.tasks.task import AlbertTask
from keras_albert.training.devices import OneDevice
from keras_albert.training.run_folder import Arrays, Row, RunFolder, TrainingCheckpoint
from keras_albert.types import Batch


class StopSignals:
    """Records SIGINT and SIGTERM in a block, so that it can end at a suitable point."""

    # The second SIGINT interrupts at once. Python has signals in the main thread only.
    # Blocks may be nested: several processes record signals from the start, since the
    # others would wait for one that ends alone.

    def __init__(self) -> None:
        self.number: int | None = None
        self._depth = 0
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal was received."""
        return self.number is not None

    def __enter__(self) -> Self:
        self._depth += 1
        is_main = threading.current_thread() is threading.main_thread()
        if is_main:
            for number in (signal.SIGINT, signal.SIGTERM):
                # Also in an inner block: libraries replace handlers.
                before = signal.signal(number, self._note)
                self._before.setdefault(number, before)
            # This also delivers what the command line has blocked since it started.
            _block_sigterm(False)
        return self

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth:
            return
        for number, handler in self._before.items():
            # `None` means a handler that was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._before.clear()

    @contextmanager
    def while_connected(self, connect: Callable[[], OneDevice]) -> Iterator[OneDevice]:
        """Record signals until the devices are known, or to the end if others wait."""
        with ExitStack() as together:
            with self:
                # TensorFlow takes SIGTERM for itself when it connects, and forgets it.
                _block_sigterm(True)
                try:
                    devices = connect()
                finally:
                    together.enter_context(self)
                if devices.num_processes == 1:
                    together.close()
            yield devices

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number


def _block_sigterm(is_blocked: bool) -> None:
    """Block SIGTERM, or unblock it and SIGINT."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        return
    if is_blocked:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    else:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))


def moving_averages(optimizer: Any) -> list[Any]:
    """Return the moving averages of the trainable variables, in their order."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    if not inner.use_ema:
        return []
    return [each for each in inner.variables if each.name.endswith("_average")]


_SECONDS_PER_AGREEMENT = 1.0


class TrainingRecorder(keras.callbacks.Callback):
    """Counts batches, writes the curve and checkpoints, and ends failed runs."""

    # An epoch of Keras is one row of the curve. A checkpoint within it includes the
    # metrics, so that the row is the same after an interruption.

    def __init__(
        self,
        folder: RunFolder,
        devices: OneDevice,
        stop: StopSignals,
        identity: dict[str, Any],
        *,
        seed: int,
        num_batches: int,
        batches_per_row: int,
        batches_per_checkpoint: int,
        batches_per_update: int = 1,
        seconds_per_checkpoint: float = math.inf,
        monitor: tuple[str, str] = ("val_loss", "min"),
        remedy: str = "",
    ) -> None:
        super().__init__()
        self.folder = folder
        self.devices = devices
        self.stop = stop
        self.identity = identity
        self.seed = seed
        self.num_batches = num_batches
        self.batches_per_row = batches_per_row
        self.batches_per_checkpoint = batches_per_checkpoint
        self.batches_per_update = batches_per_update
        self.seconds_per_checkpoint = seconds_per_checkpoint
        self.monitor = monitor
        self.remedy = remedy
        self.done = 0
        self.rows: list[Row] = []
        self.best: float | None = None
        self.best_done = 0
        self.best_values: Arrays | None = None
        self._metrics: Arrays | None = None
        self._evaluated: Arrays | None = None
        self._learned: Arrays | None = None
        self._saved = self._agreed = (0, 0.0)
        self._next_agreement = 0

    def start(self, checkpoint: TrainingCheckpoint | None, task: AlbertTask) -> None:
        """Start the run, or resume it from a checkpoint."""
        if checkpoint is not None:
            self._restore(checkpoint, task)
        state = [*task.variables, *task.optimizer.variables]
        size = sum(4 * math.prod(each.shape) for each in state)
        self.devices.on_chief(lambda: self.folder.start(self.rows, size))
        # The batch and the time of the last checkpoint, and of the last agreement.
        self._saved = self._agreed = (self.done, time.monotonic())

    def end_if_told(self) -> None:
        """Stop before the first batch if a signal came while the run was set up."""
        stops, _ = self._agree()
        # Startup time says nothing about step time.
        self._next_agreement = self.done
        if stops and self.done == self._saved[0]:
            raise KeyboardInterrupt(self.stop.number)

    def _restore(self, checkpoint: TrainingCheckpoint, task: AlbertTask) -> None:
        groups, notes = checkpoint.groups, checkpoint.notes
        self._check_shapes("model", task.variables, groups["model"])
        self._check_shapes("optimizer", task.optimizer.variables, groups["optimizer"])
        self.devices.assign(task.variables, groups["model"])
        self.devices.assign(task.optimizer.variables, groups["optimizer"])
        # Assigned later, as Keras resets these before the first batch.
        self._metrics = groups.get("metrics")
        self.done = checkpoint.step
        self.rows = notes["rows"]
        self.best, self.best_done = notes["best"], notes["best_done"]
        self.best_values = groups.get("best")

    def _check_shapes(self, group: str, variables: list[Any], values: Arrays) -> None:
        needed = [tuple(variable.shape) for variable in variables]
        if needed != [value.shape for value in values]:
            raise ValueError(
                f"The {group} variables in {self.folder.shown(self.folder.last)} have "
                "different shapes from what this run needs: its inputs have changed. "
                "Restore them, or choose another output."
            )

    def load_best(self, task: AlbertTask) -> None:
        """Set the weights of a model to the best ones, if there are any."""
        if self.best_values is not None:
            self.devices.assign(task.variables, self.best_values)

    def copy_state_to(self, task: AlbertTask, to: Any) -> None:
        """Copy the weights and the optimizer's state to another compiled model."""
        for old, new in ((task, to), (task.optimizer, to.optimizer)):
            self.devices.assign(new.variables, self.devices.values(old.variables))

    def forget_best(self) -> None:
        """Discard the best weights; the next evaluated ones are the best."""
        self.best, self.best_values, self.best_done = None, None, 0

    def on_test_begin(self, logs: Any = None) -> None:
        """Evaluate the moving average of the weights, if the optimizer keeps one."""
        if averages := moving_averages(self.model.optimizer):
            variables = self.model.trainable_variables
            self._learned = self._copies(variables)
            self.devices.assign(variables, self.devices.values(averages))

    def on_test_end(self, logs: Any = None) -> None:
        """Keep the evaluated weights, and restore the trained ones."""
        self._evaluated = self._copies(self.model.variables)
        if self._learned is not None:
            self.devices.assign(self.model.trainable_variables, self._learned)
            self._learned = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Start or resume a row."""
        if self._metrics is not None:
            self.devices.assign(self.model.metrics_variables, self._metrics)
            self._metrics = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Seed PyTorch by the number of the batch."""
        if keras.config.backend() != "torch":
            return
        import torch  # noqa: PLC0415  (it is the backend)

        # Keras' dropout without a seed uses PyTorch's generator, whose state is not a
        # variable.
        seeds = np.random.SeedSequence([self.seed, self.devices.shard, self.done])
        torch.manual_seed(int(seeds.generate_state(1)[0]))

    def on_train_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        """Count a batch, and write a checkpoint if one is due."""
        self.done += 1
        if not math.isfinite(logs["loss"]):
            raise self._not_finite("The loss is infinite or NaN")
        ends_row = self.done == self.num_batches or not self.done % self.batches_per_row
        # At the end of a row, `on_epoch_end` writes the checkpoint.
        if self.done % self.batches_per_update or ends_row:
            return
        stops, saves = False, self._is_counted()
        if self.done >= self._next_agreement:
            stops, saves = self._agree()
        if stops or saves:
            self._save(with_metrics=True)
        if stops:
            raise KeyboardInterrupt(self.stop.number)

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        """Write a row, and then, if one is due, a checkpoint that includes it."""
        row = self.make_row(epoch, logs)
        for name, value in row.items():
            if name.endswith("loss") and not math.isfinite(value):
                raise self._not_finite(f"{name} is infinite or NaN")
        self.rows.append(row)
        if self.devices.is_chief:
            self.folder.curve.append(row)
        if self._is_best(row):
            self.best, self.best_done = row[self.monitor[0]], self.done
            self.best_values = self._evaluated or self._copies(self.model.variables)
        is_last = self.done == self.num_batches
        stops, saves = self._agree()
        if is_last or stops or saves:
            self._save(with_metrics=False)
        if stops and not is_last:
            raise KeyboardInterrupt(self.stop.number)

    def make_row(self, epoch: int, logs: dict[str, float]) -> Row:
        """Return a row of the curve."""
        return {"epoch": epoch, **{name: float(logs[name]) for name in logs}}

    def _is_best(self, row: Row) -> bool:
        name, mode = self.monitor
        if name not in row:
            return False
        if self.best is None:
            return True
        return row[name] > self.best if mode == "max" else row[name] < self.best

    def _copies(self, variables: list[Any]) -> Arrays:
        # Some backends return the memory that training modifies.
        return [np.array(value) for value in self.devices.values(variables)]

    def _agree(self) -> tuple[bool, bool]:
        """Return whether all processes stop after this batch, and whether they save.

        Several processes call this about once a second: it takes milliseconds.
        """
        now = time.monotonic()
        is_due = now - self._saved[1] >= self.seconds_per_checkpoint
        done, then = self._agreed
        seconds = (now - then) / max(1, self.done - done)
        # The sums are equal in all processes, and so is what follows from them.
        told, due, seconds = self.devices.sum(
            [float(self.stop.requested), float(is_due), seconds]
        )
        if self.devices.num_processes > 1:
            seconds = max(seconds / self.devices.num_processes, 1e-6)
            self._next_agreement = self.done + int(_SECONDS_PER_AGREEMENT / seconds)
            self._agreed = (self.done, now)
        if told and not self.stop.requested:
            self.stop.number = signal.SIGTERM
        return bool(told), bool(due) or self._is_counted()

    def _is_counted(self) -> bool:
        return not self.done % self.batches_per_checkpoint

    def _save(self, with_metrics: bool) -> None:
        model = self.model
        groups = {"model": model.variables, "optimizer": model.optimizer.variables}
        if with_metrics:
            groups["metrics"] = model.metrics_variables
        values = {name: self.devices.values(each) for name, each in groups.items()}
        self._check(values["model"])
        if self.best_values is not None:
            values["best"] = self.best_values
        notes = {
            "best": self.best,
            "best_done": self.best_done,
            "rows": self.rows,
            "identity": self.identity,
        }
        checkpoint = TrainingCheckpoint(self.done, values, notes)

        def write() -> None:
            checkpoint.write(self.folder.last)
            self.folder.mirror()

        self.devices.on_chief(write)
        self._saved = (self.done, time.monotonic())

    def _check(self, values: Arrays) -> None:
        floats = (array for array in values if array.dtype.kind == "f")
        if not all(np.isfinite(array).all() for array in floats):
            raise self._not_finite("A weight is infinite or NaN")

    def _not_finite(self, what: str) -> FloatingPointError:
        kept = "There is no earlier checkpoint"
        if self.folder.last.is_file():
            last = self.folder.shown(self.folder.last)
            kept = f"{last} contains the last finite weights"
        step = -(-self.done // self.batches_per_update)
        return FloatingPointError(f"{what} at step {step}. {kept}. {self.remedy}")


def resumable_fit(
    task: AlbertTask,
    recorder: TrainingRecorder,
    read: Callable[[int], Batch],
    until: int | None = None,
    **kwargs: Any,
) -> None:
    """Train to the end, from the position of the recorder."""
    # `read` returns the batch of a number, counted over the whole run, always the same
    # one; `until` ends a row.
    row = recorder.batches_per_row
    total = recorder.num_batches if until is None else until
    recorder.end_if_told()
    # All epochs of a call have the same length: a shorter one, at either end, takes a
    # separate call.
    while recorder.done < total:
        epoch, within = divmod(recorder.done, row)
        steps = min(row - within, total - recorder.done)
        whole = (total - recorder.done) // row if not within else 0
        with PrefetchedBatches(read, recorder.done) as prefetched:
            # Not the task's `fit`, which reads and checks users' data.
            keras.Model.fit(
                task,
                recorder.devices.batches(prefetched, read(recorder.done)),
                initial_epoch=epoch,
                epochs=epoch + max(1, whole),
                steps_per_epoch=steps,
                shuffle=False,
                callbacks=[recorder],
                **kwargs,
            )


# The number of batches prepared in advance.
_AHEAD = 4


class PrefetchedBatches:
    """An endless iterator of batches, which a thread prepares in order."""

    def __init__(self, read: Callable[[int], Batch], first: int) -> None:
        self._read = read
        self._next = first
        self._pool = ThreadPoolExecutor(1, "batches")
        self._pending: deque[Future[Batch]] = deque()
        self._closed = False

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._closed:
            # A thread of the backend may request one more batch.
            raise StopIteration
        while len(self._pending) < _AHEAD:
            self._pending.append(self._pool.submit(self._read, self._next))
            self._next += 1
        return self._pending.popleft().result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._pool.shutdown(cancel_futures=True)
