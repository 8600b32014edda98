"""The directory of a run: its curve, its checkpoints and its results."""

import csv
import hashlib
import importlib.util
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from keras_albert.presets.preset_files import CONFIG_FILE, preset_directory
from keras_albert.utils.atomic_files import atomic_file
from keras_albert.utils.environment import new_figure, versions
from keras_albert.utils.reading import reading
from keras_albert.utils.remote import (
    address_of,
    download,
    is_remote,
    list_files,
    local_path,
    remove,
    upload,
)
from keras_albert.utils.temporary import folders_above, locked, temporary_directory

Arrays = list[npt.NDArray[Any]]

# Incremented when the meaning of the files changes.
_VERSION = 2


@dataclass(frozen=True)
class TrainingCheckpoint:
    """The state that a run needs to resume as if it had never stopped."""

    # The step determines the next data, and dropout's state is among the variables.
    # `groups` are "model", "optimizer", "metrics" within a row of the curve, and "best"
    # once a row was evaluated.

    step: int
    groups: Mapping[str, Arrays]
    notes: dict[str, Any] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the checkpoint under a temporary name, and move it into place."""
        from safetensors.numpy import save_file  # noqa: PLC0415  (seldom needed)

        tensors = {
            f"{group}/{number:05d}": np.array(array, order="C")
            for group, arrays in self.groups.items()
            for number, array in enumerate(arrays)
        }
        head = {"version": _VERSION, "step": self.step, "notes": self.notes}
        with atomic_file(path) as partial:
            save_file(tensors, partial, metadata={"checkpoint": json.dumps(head)})
            with partial.open("rb+") as file:
                # Safe against a crash of the machine, not only of the process.
                os.fsync(file.fileno())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a checkpoint."""
        from safetensors import safe_open  # noqa: PLC0415  (seldom needed)

        remedy = "Remove it to restart the run, or choose another output."
        groups: dict[str, Arrays] = {}
        with reading(path, remedy), safe_open(path, "numpy") as file:
            head = json.loads(file.metadata()["checkpoint"])
            version = head["version"]
            if version == _VERSION:
                for name in sorted(file.keys()):
                    group = groups.setdefault(name.split("/")[0], [])
                    group.append(file.get_tensor(name))
                return cls(int(head["step"]), groups, dict(head["notes"]))
        raise ValueError(
            f"{path} is a checkpoint of version {version}, but this keras_albert reads "
            f"version {_VERSION}. Resume with the version that wrote it, or choose "
            "another output."
        )


Row = dict[str, float]


@dataclass(frozen=True)
class TrainingCurve:
    """Rows of numbers in a file of JSON lines, for monitoring a run."""

    path: Path

    def append(self, row: Mapping[str, float]) -> None:
        """Append a row."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dict(row)) + "\n")

    def rows(self) -> list[Row]:
        """Read all rows, without one that a killed process left incomplete."""
        if not self.path.is_file():
            return []
        rows = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
        return rows

    def write(self, rows: Sequence[Row]) -> None:
        """Replace all rows."""
        with atomic_file(self.path) as partial:
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            partial.write_text(lines, encoding="utf-8")


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write a report with the versions as JSON, atomically."""
    text = json.dumps({**report, "versions": versions()}, indent=2, default=str)
    with atomic_file(path) as partial:
        partial.write_text(text, encoding="utf-8")


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as a CSV table, atomically; missing values are empty cells."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (
        atomic_file(path) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


def draw_curves(
    path: Path,
    rows: Sequence[Row],
    step: str = "step",
    validation: str = "held out",
    baselines: Mapping[str, float] | None = None,
) -> None:
    """Draw the metrics of training and validation, if matplotlib is installed."""
    # The validation value of a metric is under `val_...` and may be missing;
    # `baselines` are scores without reading the texts.
    if importlib.util.find_spec("matplotlib") is None:
        return
    last = {name: value for row in rows for name, value in row.items()}
    names = [name for name in last if f"val_{name}" in last]
    figure = new_figure(4.2 * len(names), 3.4)
    for axis, name in zip(np.ravel(figure.subplots(1, len(names))), names, strict=True):
        for key, label in ((name, "training"), (f"val_{name}", validation)):
            points = [(row[step], row[key]) for row in rows if key in row]
            marker = "o" if len(points) == 1 else None
            axis.plot(*zip(*points, strict=True), label=label, marker=marker)
        if baselines and name in baselines:
            axis.axhline(baselines[name], color="gray", ls=":", label="baseline")
        axis.set(xlabel=step, title=name.replace("_", " "))
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(path, dpi=120)


def digest(content: Any) -> str:
    """Return a digest of a file, bytes or JSON values, by which a run is recognized."""
    if isinstance(content, Path):
        with content.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    if not isinstance(content, bytes):
        content = json.dumps(content, sort_keys=True, default=str).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def content_of(address: str | os.PathLike[str] | None) -> Any:
    """Return digests of a local file or directory, which its copies share."""
    # Anything else is compared by its name.
    path = Path(address or "")
    if address is not None and path.is_dir():
        files = sorted(each for each in path.rglob("*") if each.is_file())
        return {each.relative_to(path).as_posix(): digest(each) for each in files}
    return digest(path) if path.is_file() else str(address)


def config_without_name(model: Any) -> dict[str, Any]:
    """Return a model's config; Keras numbers models in the order of their creation."""
    return {k: v for k, v in model.get_config().items() if k != "name"}


@dataclass(frozen=True)
class RunFolder:
    """The files of a run: its state while it lasts, and its results."""

    # A run resumes from its newest checkpoint alone, which is complete at any moment.
    # A remote run has its files in a temporary directory, and uploads them with each.

    path: Path
    address: str | None = None

    @classmethod
    @contextmanager
    def at(cls, output: str | os.PathLike[str]) -> Iterator[Self]:
        """Open the directory of a run, which may be at an address."""
        if not is_remote(output):
            yield cls(local_path(output))
            return
        address = str(address_of(output))
        files = list_files(address)
        if f"preset/{CONFIG_FILE}" not in files:
            # The upload of the model was interrupted.
            files = {k: v for k, v in files.items() if not k.startswith("preset/")}
        with temporary_directory(Path(tempfile.gettempdir(), "run")) as temporary:
            folder = cls(temporary / "run", address)
            if files:
                download(address, folder.path, files)
            yield folder

    def shown(self, path: Path) -> str:
        """Return where others find a file of the run."""
        if self.address is None:
            return str(path)
        return f"{self.address}/{path.relative_to(self.path).as_posix()}"

    def mirror(self) -> None:
        """Upload the files of a remote run."""
        if self.address is not None:
            upload(self.path, self.address)

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
        """Lock the directory, which is created, against other processes."""
        # The lock ends with the process and leaves no file.
        with folders_above(local_path(self.path) / "run"), locked(self.path):
            yield

    def check_unfinished(self) -> None:
        """Check that there is no finished model."""
        if self.preset.exists():
            raise ValueError(
                f"{self.shown(self.preset)} already exists: the run is finished. "
                "Choose another output."
            )

    def open(
        self, identity: dict[str, Any], may_change: Collection[str] = ()
    ) -> TrainingCheckpoint | None:
        """Return the checkpoint of the interrupted run, if there is one."""
        if not self.last.is_file():
            return None
        checkpoint = TrainingCheckpoint.read(self.last)
        before = checkpoint.notes["identity"]
        changed = [
            f"{name} was {before.get(name)!r} and is {identity.get(name)!r}"
            for name in sorted(set(identity) | set(before))
            if name not in may_change and identity.get(name) != before.get(name)
        ]
        if changed:
            raise ValueError(
                f"{self.address or self.path} contains a run with different settings: "
                f"{'; '.join(changed)}. Use the earlier settings to resume it, or "
                "choose another output."
            )
        return checkpoint

    def start(self, rows: list[Row], size: int = 0) -> None:
        """Make the directory, and a curve that ends where the run resumes.

        The disk must have room for a checkpoint of `size` bytes.
        """
        self.training.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.training).free
        if free < size:
            raise OSError(
                f"{self.training} has {free / 1e6:,.1f} MB free, but a checkpoint "
                f"takes {size / 1e6:,.1f} MB. Free some space, or write elsewhere."
            )
        self.curve.write(rows)
        if self.address is not None:
            # A store that cannot be written to ends the run at its start.
            upload(self.curve.path, self.shown(self.curve.path))

    def finish(
        self,
        report: Mapping[str, Any],
        rows: Sequence[Row],
        save: Callable[[Path], Any],
        card: str,
        plots: Iterable[Path] = (),
    ) -> None:
        """Write the report, the curve and the model with its card; the model last."""
        write_report(self.path / "report.json", report)
        write_table(self.path / "curve.csv", rows)
        with preset_directory(self.preset) as preset:
            save(preset)
            for plot in plots:
                shutil.copy(plot, preset)
            (preset / "README.md").write_text(card, encoding="utf-8")
        if self.address is not None:
            # The last checkpoint is there, until the model is, too.
            shutil.rmtree(self.training, ignore_errors=True)
        self.mirror()

    def tidy_up(self) -> None:
        """Remove what exists only during the run, the checkpoint last."""
        # It can be called again after an interruption, as long as the checkpoint
        # exists. Other files in the directory stay.
        if self.address is not None:
            remove(self.shown(self.training))
        self.curve.path.unlink(missing_ok=True)
        self.last.unlink(missing_ok=True)
        with suppress(OSError):
            self.training.rmdir()
