"""Reads a user's file row by row, so that it need not fit into memory."""

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from keras_albert.utils.local_path import local_path

OBJECTS = (".jsonl", ".ndjson", ".json")
TABLES = (".tsv", ".csv", *OBJECTS)
TEXTS = (".txt",)

Row = dict[str, Any]


class FileRows:
    r"""The rows of a file as dicts, read one by one.

    Attributes:
        columns: The names of the columns, in the file's order.
        line: The line, from 1, on which the row begins that was read last.
        position: The number of bytes that have been read.
    """

    def __init__(self, path: Path, kinds: tuple[str, ...] = TABLES + TEXTS) -> None:
        suffix = local_path(path).suffix.lower()
        if suffix not in kinds:
            known = [kind for kind in kinds if kind not in (".ndjson", ".json")]
            msg = (
                f"{path} is none of the files that are known here: {', '.join(known)}. "
                "Rename it by what it holds."
            )
            raise ValueError(msg)
        self.path = path
        self.line = self.position = 0
        readers = {".tsv": self._tab, ".csv": self._comma}
        readers |= dict.fromkeys(OBJECTS, self._objects)
        self._read = readers.get(suffix, self._lines)
        # The first row sets the columns; in a table without rows, the header does.
        self.columns: tuple[str, ...] = ()
        next(iter(self), None)

    def __iter__(self) -> Iterator[Row]:
        with self.path.open("rb") as file:
            # The wrapper reads in large chunks: `position` counts the bytes it took.
            text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
            try:
                for row in self._read(self._without_nul(text)):
                    self.position = file.tell()
                    yield row
            except UnicodeDecodeError as error:
                msg = (
                    f"{self.path} is not UTF-8 (after byte {self.position}: "
                    f"{error.reason}). Convert it, as in `iconv -f latin1 -t utf-8`."
                )
                raise ValueError(msg) from error

    def _without_nul(self, file: TextIO) -> Iterator[str]:
        for number, line in enumerate(file, 1):
            if "\0" in line:
                msg = (
                    f"{self.path}, line {number} holds a NUL character, as a text in "
                    "UTF-16 does. Convert it, as in `iconv -f utf-16 -t utf-8`, or "
                    "correct the line."
                )
                raise ValueError(msg)
            yield line

    def _tab(self, file: Iterator[str]) -> Iterator[Row]:
        return self._table(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))

    def _comma(self, file: Iterator[str]) -> Iterator[Row]:
        return self._table(csv.reader(file, strict=True))

    def _table(self, reader: Any) -> Iterator[Row]:
        # A field may be a whole document.
        csv.field_size_limit(2**31 - 1)
        try:
            header: list[str] = next(reader, [])
            self.columns = self._different(header)
            self.line = reader.line_num + 1
            for row in reader:
                if len(row) != len(header):
                    msg = (
                        f"{self.path}, line {self.line} has {len(row)} fields, and the "
                        f"header has {len(header)}: {', '.join(header)}. Correct or "
                        "drop the row."
                    )
                    raise ValueError(msg)
                yield dict(zip(header, row, strict=True))
                self.line = reader.line_num + 1
        except csv.Error as error:
            msg = f"{self.path}, line {reader.line_num}: {error}. Correct the quotes."
            raise ValueError(msg) from error

    def _objects(self, file: Iterator[str]) -> Iterator[Row]:
        names: set[str] | None = None
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(
                    line, object_pairs_hook=_object, parse_constant=_no_constant
                )
            except (ValueError, RecursionError) as error:
                msg = (
                    f"{self.path}, line {number} is no JSON ({error}). One object a "
                    "line."
                )
                raise ValueError(msg) from error
            if not isinstance(row, dict) or (names is not None and set(row) != names):
                expected = f" with {', '.join(self.columns)}" if names else ""
                msg = (
                    f"{self.path}, line {number} is no JSON object{expected}: "
                    f"{line[:80]}"
                )
                raise ValueError(msg)
            if names is None:
                names, self.columns = set(row), tuple(row)
            self.line = number
            yield row

    def _different(self, names: list[str]) -> tuple[str, ...]:
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            msg = (
                f"{self.path}: the header has {', '.join(map(repr, repeated))} more "
                "than once. Give each column a name of its own."
            )
            raise ValueError(msg)
        return tuple(names)

    def _lines(self, file: Iterator[str]) -> Iterator[Row]:
        self.columns = ("text",)
        for self.line, line in enumerate(file, 1):
            yield {"text": line.rstrip("\r\n")}


def _object(pairs: list[tuple[str, Any]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it has {repeated!r} more than once")
    return row


def _no_constant(name: str) -> Any:
    raise ValueError(f"it holds {name}, which is not a value of JSON")
