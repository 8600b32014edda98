"""The directory of a run."""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keras_albert.training.training_checkpoint import TrainingCheckpoint
from keras_albert.training.training_curve import Row, TrainingCurve
from keras_albert.utils.atomic_file import folders_above
from keras_albert.utils.local_path import local_path
from keras_albert.utils.temporary import locked


@dataclass(frozen=True)
class RunFolder:
    """The files of a run: its state while it lasts, and its results.

    A run resumes from a single file, its newest checkpoint. It is complete at any
    moment, and everything else follows from it.
    """

    path: Path

    @property
    def preset(self) -> Path:
        """The finished model."""
        return self.path / "preset"

    @property
    def training(self) -> Path:
        """The directory of the files that exist only during the run."""
        return self.path / "training"

    @property
    def last(self) -> Path:
        """The newest checkpoint."""
        return self.training / "last.safetensors"

    @property
    def curve(self) -> TrainingCurve:
        """The curve of losses and accuracies."""
        return TrainingCurve(self.training / "curve.jsonl")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the directory, which is created, against other processes.

        The lock is held by the operating system on the directory itself: it ends with
        the process and leaves no file. On Windows, and on file systems without locks,
        it has no effect.
        """
        with folders_above(local_path(self.path) / "run"), locked(self.path):
            yield

    def check_unfinished(self) -> None:
        """Check that there is no finished model."""
        if self.preset.exists():
            msg = (
                f"{self.preset} already exists: the run is finished. Choose another "
                "output."
            )
            raise ValueError(msg)

    def open(
        self, identity: dict[str, Any], may_change: Collection[str] = ()
    ) -> TrainingCheckpoint | None:
        """Begin a run, or find the interrupted one."""
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
                f"{self.path} contains a run with other settings: "
                f"{'; '.join(changed)}. Use the former settings to resume it, or "
                "choose another output."
            )
            raise ValueError(msg)
        return checkpoint

    def begin(self, rows: list[Row]) -> None:
        """Make the directory, and a curve that ends where the run resumes.

        `identity` are JSON values; `None` is returned for a new run.
        """
        self.training.mkdir(parents=True, exist_ok=True)
        self.curve.write(rows)

    def tidy_up(self) -> None:
        """Remove what exists only during the run; the checkpoint before the rest.

        It can be called again after an interruption, as long as the checkpoint exists.
        """
        self.curve.path.unlink(missing_ok=True)
        self.last.unlink(missing_ok=True)
        if self.training.exists():
            shutil.rmtree(self.training)

    def _check_only_ours(self) -> None:
        ours = {self.last.name, self.curve.path.name}
        files = sorted(self.training.iterdir()) if self.training.exists() else ()
        for path in files:
            # Hidden files are unfinished ones of a killed process.
            if path.name not in ours and not path.name.startswith("."):
                msg = (
                    f"{path} was not written by a run of this version of keras_albert. "
                    f"Use the version that wrote it, remove {self.training}, or choose "
                    "another output."
                )
                raise ValueError(msg)
