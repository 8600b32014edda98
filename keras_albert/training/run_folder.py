"""The directory of a run."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_albert.training.training_checkpoint import TrainingCheckpoint
from keras_albert.training.training_curve import Row, TrainingCurve


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps what it needs to go on, and what it leaves.

    One file decides where a run goes on, its newest checkpoint. It is whole at any
    moment, and everything else follows from it.

    Args:
        path: Path. A directory of its own.
    """

    path: Path

    @property
    def preset(self) -> Path:
        """The finished model."""
        return self.path / "preset"

    @property
    def training(self) -> Path:
        """What is kept while the run lasts."""
        return self.path / "training"

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self.training / "last.safetensors"

    @property
    def curve(self) -> TrainingCurve:
        """How losses and accuracies went."""
        return TrainingCurve(self.training / "curve.jsonl")

    def check_unfinished(self) -> None:
        """Check that there is no finished model.

        Raises:
            ValueError: If there is one.
        """
        if self.preset.exists():
            msg = f"{self.preset} is there: the run is finished. Name another output."
            raise ValueError(msg)

    def open(
        self, identity: dict[str, Any], may_change: Collection[str] = ()
    ) -> TrainingCheckpoint | None:
        """Begin a run, or find the one that was stopped.

        Args:
            identity: dict. What makes a run this run; JSON values.
            may_change: Collection of string. Parts of it that say nothing of what
                comes out. Defaults to none.

        Returns:
            Where to go on, or `None` at the beginning.

        Raises:
            ValueError: If the run is another one, or there is something that is of
                no run of this version.
        """
        if not self.last.is_file():
            self._check_only_ours()
            return None
        checkpoint = TrainingCheckpoint.read(self.last)
        before = checkpoint.notes["identity"]
        changed = [
            f"{name} was {before.get(name)!r} and is {identity.get(name)!r}"
            for name in sorted(set(identity) | set(before))
            if name not in may_change and identity.get(name) != before.get(name)
        ]
        if changed:
            msg = (
                f"{self.path} holds a run with other settings: {'; '.join(changed)}. "
                "Repeat them to go on with it, or name another output."
            )
            raise ValueError(msg)
        return checkpoint

    def begin(self, rows: list[Row]) -> None:
        """Make the directory, and a curve that ends where the run goes on.

        Args:
            rows: list of dict of float. What is in the checkpoint.
        """
        self.training.mkdir(parents=True, exist_ok=True)
        self.curve.write(rows)

    def _check_only_ours(self) -> None:
        ours = {self.last.name, self.curve.path.name}
        files = sorted(self.training.iterdir()) if self.training.exists() else ()
        for path in files:
            # Hidden ones are what a process that was killed had not finished.
            if path.name not in ours and not path.name.startswith("."):
                msg = (
                    f"{path} is of a run by another version of keras_albert, or of "
                    f"something else. Go on with that version, remove {self.training}, "
                    "or name another output."
                )
                raise ValueError(msg)
