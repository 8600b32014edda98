"""The learning curve of a run, in a file that can be read at any time."""

import csv
import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from keras_albert.utils.atomic_file import atomic_file
from keras_albert.utils.figure import new_figure

Row = dict[str, float]


@dataclass(frozen=True)
class TrainingCurve:
    """Rows of numbers in a file of JSON lines, for monitoring a run.

    A resumed run itself uses the rows in its checkpoint.
    """

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
    """Draw the metrics of training and validation, if matplotlib is installed.

    The validation value of a metric is under `val_...` and may be missing; `baselines`
    are scores without reading the texts.
    """
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
            axis.axhline(baselines[name], color="gray", ls=":", label="without reading")
        axis.set(xlabel=step, title=name.replace("_", " "))
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.savefig(path, dpi=120)
