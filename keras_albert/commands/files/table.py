"""Reads users' files as raw inputs and targets, and finds their columns."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from keras_albert.commands.files.rows import TABLES, FileRows

_Value = TypeVar("_Value")

_CHOICE = re.compile(r"(?i:choice|option)[_ ]*(\d+|[A-Ha-h])|([A-H])")

# Common names of columns; the first one in the file is used.
_ALIASES = {
    "text": (
        *("text", "sentence", "sentence1", "premise", "question1", "#1 string"),
        *("first", "review", "message", "content", "title"),
    ),
    "text_pair": (
        *("text_pair", "sentence2", "hypothesis", "question2", "#2 string", "second"),
    ),
    "label": (
        *("label", "labels", "class", "category", "gold_label", "target", "quality"),
        *("is_duplicate", "sentiment", "intent", "tag"),
    ),
    "score": ("score", "similarity", "rating", "label", "target"),
    "context": ("context", "article", "passage"),
    "question": ("question", "query"),
    "choices": ("choices", "options"),
    "answer": ("answer", "answers", "label", "correct"),
    "words": ("words", "tokens"),
    "tags": ("tags", "ner_tags", "labels"),
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
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.lines)

    def where(self, row: int) -> str:
        """Return the place of a row, for a message."""
        return f"{self.path}, line {self.lines[row]}"

    def find(self, role: str, asked: str | None = None) -> str | None:
        """Find the column of a role."""
        if asked is not None:
            if asked in self.columns:
                return asked
            msg = (
                f"{self.path} has no column {asked!r}. It has: "
                f"{', '.join(self.columns)}. {_remedy(role)}"
            )
            raise ValueError(msg)
        for alias in _ALIASES[role]:
            found = [name for name in self.columns if name.strip().lower() == alias]
            if len(found) > 1:
                msg = (
                    f"{self.path} has {' and '.join(map(repr, found))}, each of which "
                    f"may be the {role}. {_remedy(role)}"
                )
                raise ValueError(msg)
            if found:
                return found[0]
        return None

    def require(self, role: str, asked: str | None = None) -> str:
        """Find the column of a role, which must exist; see `find`."""
        name = self.find(role, asked)
        if name is None:
            msg = (
                f"{self.path} has no column that is known as a {role}. It has: "
                f"{', '.join(self.columns)}. {_remedy(role)}"
            )
            raise ValueError(msg)
        return name

    def texts(self, name: str) -> list[str]:
        """Return a column of texts."""
        return self._convert(name, _text, "a text")

    def numbers(self, name: str) -> list[float]:
        """Return a column of numbers."""
        return self._convert(name, _number, "a number")

    def labels(self, name: str) -> list[str]:
        """Return a column of labels, stripped of surrounding spaces."""
        return self._convert(name, _label, "a label")

    def lists(self, name: str) -> list[list[str]]:
        """Return a column of lists of words or choices."""
        return self._convert(name, _texts, "a list of texts")

    def label_lists(self, name: str) -> list[list[str]]:
        """Return a column of lists of tags, stripped of surrounding spaces."""
        return self._convert(name, _labels, "a list of labels")

    def _convert(
        self, name: str, convert: Callable[[Any], _Value], what: str
    ) -> list[_Value]:
        values = []
        for row, value in enumerate(self.columns[name]):
            try:
                values.append(convert(value))
            except (TypeError, ValueError):
                msg = (
                    f"{self.where(row)}: the column {name!r} holds "
                    f"{value!r:.80}, and {what} is needed in every row. Correct or "
                    "drop the row."
                )
                raise ValueError(msg) from None
        return values


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


def _labels(value: Any) -> list[str]:
    return list(map(_label, _texts(value)))


# Roles whose column is set by another role's option.
_OPTIONS = {"context": "text", "words": "text", "question": "text-pair"}
_OPTIONS |= dict.fromkeys(("answer", "score", "tags"), "label")


def _remedy(role: str) -> str:
    if role == "choices":
        return "Name it choices; or A, B, ..., a column each."
    return f"Name it: --{_OPTIONS.get(role, role.replace('_', '-'))}-column"


def read_table(path: Path, limit: int | None = None) -> Table:
    """Read a TSV, CSV or JSON lines file, according to its suffix."""
    rows = FileRows(path, TABLES)
    read = [(rows.line, row) for row in islice(rows, limit)]
    if not read:
        msg = f"{path} holds no rows. Pass a file with a header and at least one row."
        raise ValueError(msg)
    columns = {name: [row[name] for _, row in read] for name in rows.columns}
    return Table(path, columns, [line for line, _ in read])


def choice_columns_of(names: Iterable[str]) -> list[str]:
    """Find the columns of the choices, and sort them."""
    found = [(_CHOICE.fullmatch(name.strip()), name) for name in names]
    columns = [(match[1] or match[2], name) for match, name in found if match]
    # By length first, so that numbers are sorted by value.
    return [
        name for _, name in sorted(columns, key=lambda c: (len(c[0]), c[0].lower()))
    ]


def read_choices(row: Sequence[Any], where: str) -> list[Any]:
    """Read the choices of a row; rows may have different numbers of choices."""
    count = max((number for number, text in enumerate(row, 1) if text), default=0)
    if not all(row[:count]):
        msg = (
            f"{where} has no choice {row.index('') if '' in row else 0}, and has one "
            "after it. Move the choices up, or fill it in."
        )
        raise ValueError(msg)
    return list(row[:count])


def describe(table: Table, roles: Sequence[tuple[str, str | None]]) -> str:
    """Describe a table and the columns of its roles."""
    names = [name for _, name in roles if name is not None]
    for name in names:
        if names.count(name) > 1:
            both = " and ".join(role for role, taken in roles if taken == name)
            msg = (
                f"{table.path}: the column {name!r} would be the {both}. Name another "
                "column for one of them."
            )
            raise ValueError(msg)
    taken = ", ".join(f"{role} = {name!r}" for role, name in roles if name is not None)
    return f"{table.path}: {len(table):,} rows; {taken}"
