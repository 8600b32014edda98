"""The learning curve of a run, in a file that can be read at any time."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from keras_albert.utils.atomic_file import atomic_file

Row = dict[str, float]


@dataclass(frozen=True)
class TrainingCurve:
    """Rows of numbers in a file of JSON lines, for monitoring a run.

    A resumed run itself uses the rows in its checkpoint.

    Args:
        path: Path. The file.
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
        """Replace all rows.

        Args:
            rows: Sequence of dict of float.
        """
        with atomic_file(self.path) as partial:
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            partial.write_text(lines, encoding="utf-8")


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as a CSV table, atomically.

    Args:
        path: Path. The CSV file.
        rows: Sequence of dict of float. Missing values are empty cells.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (
        atomic_file(path) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
