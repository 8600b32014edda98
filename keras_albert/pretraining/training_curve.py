"""The course of a run, in a table that is there at any moment."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from keras_albert.presets.atomic_file import atomic_file

Row = dict[str, float]


@dataclass(frozen=True)
class TrainingCurve:
    """Rows of numbers in a file of JSON lines, each with the step it was reached at.

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

    def cut(self, last_step: int) -> None:
        """Forget what comes behind a step: it will be reached again.

        Args:
            last_step: int. The last step to keep.
        """
        kept = [row for row in self.rows() if row["step"] <= last_step]
        with atomic_file(self.path) as partial:
            lines = "".join(json.dumps(row) + "\n" for row in kept)
            partial.write_text(lines, encoding="utf-8")

    def write_csv(self, path: Path) -> None:
        """Write the rows as a table for spreadsheets.

        Args:
            path: Path. The file.
        """
        rows = self.rows()
        names = list(dict.fromkeys(name for row in rows for name in row))
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
