"""The directory of a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_albert.pretraining.training_checkpoint import TrainingCheckpoint
from keras_albert.pretraining.training_curve import TrainingCurve

# Settings that a run may be gone on with after they were changed: they move files,
# share out work or save memory. The rate and the limit of gradients are what helps a
# run whose loss became infinite.
_MAY_CHANGE = {
    "data",
    "output",
    "distribution",
    "remat",
    "unroll",
    "checkpoint_every",
    "learning_rate",
    "clip_norm",
}


@dataclass(frozen=True)
class RunFolder:
    """Where a run keeps what it needs to go on, and what it leaves.

    Args:
        path: Path. A directory of its own.
    """

    path: Path

    @property
    def preset(self) -> Path:
        """The finished model."""
        return self.path / "preset"

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self.path / "training" / "last.safetensors"

    @property
    def best(self) -> Path:
        """The weights that did best on held-out documents."""
        return self.path / "training" / "best.safetensors"

    @property
    def curve(self) -> TrainingCurve:
        """How losses and accuracies went."""
        return TrainingCurve(self.path / "training" / "curve.jsonl")

    def open(self, identity: dict[str, Any]) -> TrainingCheckpoint | None:
        """Begin a run, or find the one that was stopped.

        Args:
            identity: dict. What makes a run this run; JSON values.

        Returns:
            Where to go on, or `None` at the beginning.

        Raises:
            ValueError: If the run is finished, or is another one.
        """
        if self.preset.exists():
            msg = f"{self.preset} is there: the run is finished. Name another output."
            raise ValueError(msg)
        if not self.last.is_file():
            return None
        checkpoint = TrainingCheckpoint.read(self.last)
        before = checkpoint.notes["identity"]
        changed = [
            f"{name} was {before.get(name)!r} and is {identity.get(name)!r}"
            for name in sorted(set(identity) | set(before))
            if name not in _MAY_CHANGE and identity.get(name) != before.get(name)
        ]
        if changed:
            msg = (
                f"{self.path} holds a run with other settings: {'; '.join(changed)}. "
                "Repeat them to go on with it, or name another output."
            )
            raise ValueError(msg)
        return checkpoint
