"""Reads users' files row by row or as tables, and finds their columns."""

import csv
import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from keras_albert.utils.reading import unique_names
from keras_albert.utils.remote import fetch, output_path

OBJECTS = (".jsonl", ".ndjson", ".json")
TABLES = (".tsv", ".csv", *OBJECTS)
TEXTS = (".txt",)

Row = dict[str, Any]


def kind_of(path: Path) -> str:
    """Return the suffix of a file, or of what a `.gz` contains, by default text."""
    suffix = output_path(path).suffix.lower()
    if suffix != ".gz":
        return suffix
    inside = Path(path.stem).suffix.lower()
    return inside if inside in TABLES else ".txt"


class FileRows:
    """The rows of a file, plain or `.gz`, as dicts that are read one by one."""

    # `columns` are in the file's order; `line`, from 1, is where the last row begins;
    # `position` counts the bytes that have been read.

    def __init__(self, path: Path, kinds: tuple[str, ...] = TABLES + TEXTS) -> None:
        suffix = kind_of(path)
        if suffix not in kinds:
            known = [kind for kind in kinds if kind not in (".ndjson", ".json")]
            raise ValueError(
                f"The name of {path} must end in one of: {', '.join(known)}. "
                "Rename it to match its content."
            )
        self.path = fetch(path)
        self.line = self.position = 0
        tab: dict[str, Any] = {"delimiter": "\t", "quoting": csv.QUOTE_NONE}
        readers: dict[str, Callable[[Iterator[str]], Iterator[Row]]] = {
            ".tsv": lambda file: self._table(csv.reader(file, **tab)),
            ".csv": lambda file: self._table(csv.reader(file, strict=True)),
            **dict.fromkeys(OBJECTS, self._objects),
        }
        self._read = readers.get(suffix, self._lines)
        # The first row sets the columns; in a table without rows, the header does.
        self.columns: tuple[str, ...] = ()
        next(iter(self), None)

    def __iter__(self) -> Iterator[Row]:
        with self.path.open("rb") as file:
            # The wrapper reads in large chunks: `position` counts the bytes it took.
            is_gzip = self.path.suffix.lower() == ".gz"
            content: Any = gzip.GzipFile(fileobj=file) if is_gzip else file
            text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
            try:
                for row in self._read(self._without_nul(text)):
                    self.position = file.tell()
                    yield row
            except UnicodeDecodeError as error:
                raise ValueError(
                    f"{self.path} is not UTF-8 (after byte {self.position}: "
                    f"{error.reason}). Convert it, as in `iconv -f latin1 -t utf-8`."
                ) from error
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                msg = f"{self.path} is damaged ({error}). Copy or download it again."
                raise ValueError(msg) from error

    def table(
        self, rows: Sequence[tuple[int, Row]], path: Path | None = None
    ) -> "Table":
        """Return rows, each with its line, as a table."""
        columns = {name: [row[name] for _, row in rows] for name in self.columns}
        return Table(path or self.path, columns, [line for line, _ in rows])

    def _without_nul(self, file: TextIO) -> Iterator[str]:
        for number, line in enumerate(file, 1):
            if "\0" in line:
                raise ValueError(
                    f"{self.path}, line {number} contains a NUL character, as a text "
                    "in UTF-16 does. Convert it, as in `iconv -f utf-16 -t utf-8`, or "
                    "correct the line."
                )
            yield line

    def _table(self, reader: Any) -> Iterator[Row]:
        # A field may be a whole document.
        csv.field_size_limit(2**31 - 1)
        try:
            header: list[str] = next(reader, [])
            repeated = sorted({name for name in header if header.count(name) > 1})
            if repeated:
                raise ValueError(
                    f"{self.path}: the header has {', '.join(map(repr, repeated))} "
                    "more than once. Give each column its own name."
                )
            self.columns = tuple(header)
            self.line = reader.line_num + 1
            for row in reader:
                if len(row) != len(header):
                    raise ValueError(
                        f"{self.path}, line {self.line} has {len(row)} fields, but the "
                        f"header has {len(header)}: {', '.join(header)}. Correct or "
                        "drop the row."
                    )
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
                    line, object_pairs_hook=unique_names, parse_constant=_no_constant
                )
            except (ValueError, RecursionError) as error:
                raise ValueError(
                    f"{self.path}, line {number} is not JSON ({error}). One object a "
                    "line."
                ) from error
            if not isinstance(row, dict) or (names is not None and set(row) != names):
                expected = f" with {', '.join(self.columns)}" if names else ""
                raise ValueError(
                    f"{self.path}, line {number} is not a JSON object{expected}: "
                    f"{line[:80]}"
                )
            if names is None:
                names, self.columns = set(row), tuple(row)
            self.line = number
            yield row

    def _lines(self, file: Iterator[str]) -> Iterator[Row]:
        self.columns = ("text",)
        for self.line, line in enumerate(file, 1):
            yield {"text": line.rstrip("\r\n")}


def _no_constant(name: str) -> Any:
    raise ValueError(f"it contains {name}, which is not a value of JSON")


_CHOICE = re.compile(r"(?i:choice|option)[_ ]*(\d+|[A-Ha-h])|([A-H])")

# Common names of columns; the first one in the file is used.
_ALIASES = {
    role: tuple(names.split(", "))
    for role, names in {
        "text": "text, sentence, sentence1, premise, question1, #1 string, first, "
        "review, message, content, title",
        "text_pair": "text_pair, sentence2, hypothesis, question2, #2 string, second",
        "label": "label, labels, class, category, gold_label, target, quality, "
        "is_duplicate, sentiment, intent, tag",
        "score": "score, similarity, rating, label, target",
        "context": "context, article, passage",
        "question": "question, query",
        "choices": "choices, options",
        "answer": "answer, answers, label, correct",
        "words": "words, tokens",
        "tags": "tags, ner_tags, labels",
    }.items()
}


_OF_WORDS = ("word", "token", *_ALIASES["words"], *_ALIASES["text"])
_OF_TAGS = ("ner", *_ALIASES["tags"], *_ALIASES["label"])


def is_header(word: str, tag: str) -> bool:
    """Return whether a word and its tag are names of columns."""
    return word.strip().lower() in _OF_WORDS and tag.strip().lower() in _OF_TAGS


@dataclass(frozen=True)
class Table:
    """The columns of a file, by name."""

    path: Path
    columns: dict[str, list[Any]]
    # The line of each row, from 1.
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, row: int) -> str:
        """Return the place of a row, for a message."""
        return f"{self.path}, line {self.lines[row]}"

    def find(self, role: str, asked: str | None = None) -> str | None:
        """Find the column of a role."""
        if asked in self.columns:
            return asked
        if asked is not None:
            raise ValueError(
                f"{self.path} has no column {asked!r}. It has: "
                f"{', '.join(self.columns)}. {_remedy(role)}"
            )
        for alias in _ALIASES[role]:
            found = [name for name in self.columns if name.strip().lower() == alias]
            if len(found) > 1:
                raise ValueError(
                    f"{self.path} has {' and '.join(map(repr, found))}, and each could "
                    f"be the {role}. {_remedy(role)}"
                )
            if found:
                return found[0]
        return None

    def require(self, role: str, asked: str | None = None) -> str:
        """Find the column of a role, which must exist; see `find`."""
        name = self.find(role, asked)
        if name is None:
            raise ValueError(
                f"{self.path} has no column with a usual name for a {role}. It has: "
                f"{', '.join(self.columns)}. {_remedy(role)}"
            )
        return name

    def read(self, name: str, kind: str) -> list[Any]:
        """Return a column whose values are of one of `_KINDS`."""
        values, convert = [], _KINDS[kind]
        for row, value in enumerate(self.columns[name]):
            try:
                values.append(convert(value))
            except (TypeError, ValueError):
                raise ValueError(
                    f"{self.where(row)}: the column {name!r} contains {value!r:.80}, "
                    f"but every row needs {kind}. Correct or drop the row."
                ) from None
        return values

    def choice_columns(self) -> list[str]:
        """Find the column of lists of choices, or choice0, option_1, A, ..."""
        if name := self.find("choices"):
            return [name]
        found = [(_CHOICE.fullmatch(name.strip()), name) for name in self.columns]
        columns = [(match[1] or match[2], name) for match, name in found if match]
        # By length first, so that numbers are sorted by value.
        columns.sort(key=lambda each: (len(each[0]), each[0].lower()))
        return [name for _, name in columns]

    def read_choices(self, names: Sequence[str]) -> list[list[str]]:
        """Read the choices of each row; the last ones may be empty in their columns."""
        if names[0] == self.find("choices"):
            return self.read(names[0], "a list of texts")
        columns = [self.read(name, "a text or nothing") for name in names]
        rows = zip(*columns, strict=True)
        return [self._filled(list(row), number) for number, row in enumerate(rows)]

    def _filled(self, row: list[str], number: int) -> list[str]:
        count = max((n for n, text in enumerate(row, 1) if text), default=0)
        if not all(row[:count]):
            raise ValueError(
                f"{self.where(number)} has no choice {row.index('')}, but a later one. "
                "Move the choices up, or fill in the missing one."
            )
        return row[:count]

    def find_inputs(
        self, sets: Sequence[tuple[str, ...]], asked: dict[str, str | None]
    ) -> dict[str, list[str]]:
        """Find the columns of the first of some sets of inputs, best first."""
        # `asked` are the columns that the user named, by input.
        for inputs in sets:
            found = {name: self._find_input(name, asked) for name in inputs}
            if all(found.values()):
                return found
        # The smallest set: names the column that is missing.
        missing = next(name for name in sets[-1] if not found[name])
        self.require(missing, asked.get(_OPTIONS.get(missing, missing)))
        return found

    def _find_input(self, name: str, asked: dict[str, str | None]) -> list[str]:
        if name == "choices":
            return self.choice_columns()
        column = self.find(name, asked.get(_OPTIONS.get(name, name)))
        return [] if column is None else [column]

    def read_inputs(self, found: dict[str, list[str]]) -> dict[str, list[Any]]:
        """Read the inputs whose columns `find_inputs` has found."""
        return {
            name: self.read_choices(columns)
            if name == "choices"
            else self.read(columns[0], "a text")
            for name, columns in found.items()
        }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: Any) -> float:
    # `float` would read "1_0" as 10 and true as 1.
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        raise TypeError
    number = float(value)
    if not math.isfinite(number):
        raise ValueError
    return number


def _label(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # JSON has one kind of numbers: 1.0 is 1.
    label = value.strip() if isinstance(value, str) else str(value)
    if not label or not isinstance(value, str | int | float):
        raise ValueError
    return label


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise TypeError
    return [each if isinstance(each, str) else _label(each) for each in value]


# Labels are stripped of surrounding spaces.
_KINDS: dict[str, Callable[[Any], Any]] = {
    "a text": _text,
    "a text or nothing": lambda value: "" if value is None else _text(value),
    "a number": _number,
    "a label": _label,
    "a list of texts": _texts,
    "a list of labels": lambda value: list(map(_label, _texts(value))),
}

# Roles whose column is set by another role's option.
_OPTIONS = {"context": "text", "words": "text", "question": "text_pair"}
_OPTIONS |= dict.fromkeys(("answer", "score", "tags"), "label")


def _remedy(role: str) -> str:
    if role == "choices":
        return "Name it choices; or A, B, ..., a column each."
    return f"Name it: --{_OPTIONS.get(role, role).replace('_', '-')}-column"


def read_table(path: Path, limit: int | None = None) -> Table:
    """Read a TSV, CSV or JSON lines file, according to its suffix."""
    rows = FileRows(path, TABLES)
    table = rows.table([(rows.line, row) for row in islice(rows, limit)], path)
    if not table.lines:
        msg = f"{path} contains no rows. Pass a file with a header and a row."
        raise ValueError(msg)
    return table


def describe(table: Table, roles: Sequence[tuple[str, str | None]]) -> str:
    """Describe a table and the columns of its roles."""
    names = [name for _, name in roles if name is not None]
    for name in names:
        if names.count(name) > 1:
            both = " and ".join(role for role, taken in roles if taken == name)
            raise ValueError(
                f"{table.path}: the column {name!r} would be the {both}. Name another "
                "column for one of them."
            )
    taken = ", ".join(f"{role} = {name!r}" for role, name in roles if name is not None)
    return f"{table.path}: {len(table):,} rows; {taken}"
