"""The course of a run, in a table that is there at any moment."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from keras_albert.presets.atomic_file import atomic_file

Row = dict[str, float]


@dataclass(frozen=True)
class TrainingCurve:
    """Rows of numbers in a file of JSON lines, to be watched while a run lasts.

    The run itself goes on from the rows that are in its checkpoint.

    Args:
        path: Path. The file.
    """

    path: Path

    def append(self, row: Mapping[str, float]) -> None:
        """Write a row."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(dict(row)) + "\n")

    def rows(self) -> list[Row]:
        """Read all rows; one that a dying process left half is none."""
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
        """Write these rows and no others.

        Args:
            rows: Sequence of dict of float.
        """
        with atomic_file(self.path) as partial:
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            partial.write_text(lines, encoding="utf-8")


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as a table for spreadsheets, whole or not at all.

    Args:
        path: Path. The CSV file.
        rows: Sequence of dict of float. A cell is empty where a row has no value.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (
        atomic_file(path) as partial,
        partial.open("w", encoding="utf-8", newline="") as file,
    ):
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
