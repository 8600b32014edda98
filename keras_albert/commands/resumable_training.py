"""Training that can be stopped and started again, and keeps its best weights."""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras

from keras_albert.commands.run_settings import Settings, open_settings


@dataclass(frozen=True)
class TrainingFolder:
    """Where a run keeps what it needs to go on.

    Args:
        path: Path. A directory of its own.
    """

    path: Path

    def open(self, settings: Settings) -> bool:
        """Begin a run, or find the one that was stopped.

        Args:
            settings: dict. What makes a run this run and no other; JSON values.

        Returns:
            Whether there was one.

        Raises:
            ValueError: If there was one with other settings.
        """
        return open_settings(self.path / "settings.json", settings)

    def start(self, cls: Any, build: Callable[[], Any]) -> Any:
        """Build the task that the run begins with, the same one each time.

        Args:
            cls: The class of the task.
            build: Callable that gives a new task.

        Returns:
            The task.
        """
        preset = self.path / "start"
        if not preset.is_dir():
            task = build()
            task.save_to_preset(preset)
            return task
        task = cls.from_preset(preset)
        # The rate by default depends on it, and it is not in the weights.
        flags = json.loads((self.path / "settings.json").read_text(encoding="utf-8"))
        task.backbone.pretrained = bool(flags.get("preset"))
        return task

    def fit(self, task: Any, monitor: str, mode: str, **arguments: Any) -> None:
        """Train to the end, from where the run was stopped if it was.

        Args:
            task: What `start` gave. It ends up with its best weights.
            monitor: string. The metric that says which epoch is best.
            mode: string. `"max"` or `"min"`.
            **arguments: As for `fit` of the task; `epochs` counts from the beginning.
        """
        best = self.path / "best.weights.h5"
        values = [row[monitor] for row in self.history()]
        reached = (max if mode == "max" else min)(values) if values else None
        # First, so that a stop in a later callback repeats no more than an epoch.
        log = keras.callbacks.CSVLogger(self.path / "history.csv", append=True)
        keep_best = keras.callbacks.ModelCheckpoint(
            best,
            monitor,
            mode=mode,
            save_best_only=True,
            save_weights_only=True,
            initial_value_threshold=reached,
        )
        backup = keras.callbacks.BackupAndRestore(
            self.path / "backup", double_checkpoint=True, delete_checkpoint=False
        )
        try:
            task.fit(callbacks=[log, keep_best, backup], **arguments)
        except BaseException:
            log.on_train_end()  # Keras leaves the file open
            raise
        if best.is_file():
            task.load_weights(best)

    def history(self) -> list[dict[str, float]]:
        """Read what each epoch came to; of one that was repeated, the last."""
        file = self.path / "history.csv"
        if not file.is_file():
            return []
        with file.open(encoding="utf-8", newline="") as lines:
            epochs = {
                int(row["epoch"]): {k: float(v) for k, v in row.items() if v}
                for row in csv.DictReader(lines)
            }
        return [epochs[number] for number in sorted(epochs)]
