"""Reads files of examples, for each task."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from keras_albert.text.choices import check_answers, encode_answers
from keras_albert.text.dataset_files import read_conll, read_squad
from keras_albert.tools.data_files import (
    OBJECTS,
    TABLES,
    FileRows,
    Table,
    describe,
    is_header,
    kind_of,
    read_table,
)

_NUMBER = re.compile(r"\s*[0-9]{1,9}\s*")


# The columns that the user named, by "text", "text_pair" and "label".
Asked = Mapping[str, str | None]


@dataclass(frozen=True)
class Dataset:
    """Examples of a task, such as the contents of a file.

    Args:
        x: The inputs, as `fit` takes them: a list, or a tuple of lists for tasks with
            several inputs.
        y: list or `None`. The targets, as `fit` takes them. Defaults to `None`, the
            texts are the targets.

    Example:
        >>> from keras_albert.tools import Dataset
        >>> data = Dataset(["Where is my parcel?", "Thanks!"], ["delivery", "other"])
        >>> len(data), data.row_text(0)
        (2, 'Where is my parcel?')
    """

    x: Any
    y: Any = None
    # All texts, to train a vocabulary on.
    texts: Callable[[], Iterable[str]] = list
    # The file and the columns that were read.
    description: str = ""
    # Arguments of the task's constructor that follow from the targets.
    head: dict[str, Any] = field(default_factory=dict)
    # The number to divide targets by; see `on_one_scale`.
    highest: float = 1.0
    # From a label to the place of the first one in the file.
    where: Callable[[str], str] = str
    # From the number of a row to its place.
    place: Callable[[int], str] = field(default_factory=lambda: "row {}".format)
    # All columns of a table.
    columns: dict[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.x[0] if isinstance(self.x, tuple) else self.x)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Return the inputs of each row: texts, or lists of words or choices."""
        return zip(*(self.x if isinstance(self.x, tuple) else (self.x,)), strict=True)

    def row_text(self, number: int) -> str:
        """Return the inputs of a row as one text, to show and to compare."""
        columns = self.x if isinstance(self.x, tuple) else (self.x,)
        row = (column[number] for column in columns)
        return " | ".join(x if isinstance(x, str) else " ".join(x) for x in row)

    def row_texts(self) -> list[str]:
        """Return each row as one text; see `row_text`."""
        return [self.row_text(number) for number in range(len(self))]


def _read_labelled(
    path: Path,
    asked: Asked,
    limit: int | None = None,
    target: str = "label",
    needs_pair: bool = False,
) -> Dataset:
    table = read_table(path, limit)
    first = table.require("text", asked.get("text"))
    find = table.require if needs_pair else table.find
    second = find("text_pair", asked.get("text_pair"))
    label = table.require(target, asked.get("label"))
    columns = [
        table.read(name, "a text") for name in (first, second) if name is not None
    ]
    description = describe(table, [("text", first), ("pair", second), (target, label)])
    if target == "score":
        y: Any = table.read(label, "a number")
        head: dict[str, Any] = {"num_classes": 1}
    else:
        several = all(isinstance(value, list) for value in table.columns[label])
        y = table.read(label, "a list of labels" if several else "a label")
        names = sorted({name for row in y for name in row} if several else set(y))
        head = {"labels": names} | ({"activation": "sigmoid"} if several else {})
        what = "labels, several for a text" if several else "classes"
        description += f"; {len(names)} {what}: {', '.join(names[:20])}"
    return Dataset(
        x=tuple(columns) if second is not None else columns[0],
        y=y,
        texts=lambda: (text for column in columns for text in column),
        description=description,
        head=head,
        where=partial(_place_in_table, table, y),
        place=table.where,
        columns=table.columns,
    )


read_labels = partial(_read_labelled, target="label")
read_scores = partial(_read_labelled, target="score")


def check_files(train: Dataset, dev: Dataset) -> None:
    """Check that the files fit each other."""
    if (train.x, train.y) == (dev.x, dev.y):
        raise ValueError(
            "`train` and `dev` contain the same examples, so the scores would say "
            "nothing about new texts. Move some examples of `train` to another file, "
            "and pass it as `dev`."
        )
    names, found = (data.head.get("labels", ()) for data in (train, dev))
    if len(names) == 1:
        raise ValueError(
            f"{train.description}. There is nothing to learn from one label: pass "
            "examples of at least two, or a larger `limit`."
        )
    for name in (each for each in found if each not in names):
        nearest = difflib.get_close_matches(name, names, n=1)
        remedy = (
            f"Did you mean {nearest[0]!r}?"
            if nearest
            else "Correct it, or add examples of it to `train`."
        )
        raise ValueError(
            f"{dev.where(name)} has the label {name!r}, which no example of `train` "
            f"has. {remedy}"
        )


def read_texts(path: Path, asked: Asked, limit: int | None = None) -> Dataset:
    """Read lines, or a column of texts."""
    if kind_of(path) in TABLES:
        table = read_table(path, limit)
        column = table.require("text", asked.get("text"))
        texts = table.read(column, "a text")
        description = describe(table, [("text", column)])
    else:
        rows = FileRows(path, (kind_of(path),))
        lines = (row["text"] for row in rows if row["text"].strip())
        texts = list(islice(lines, limit))
        if not texts:
            raise ValueError(f"{path} contains no text. Pass a file with text.")
        description = f"{path}: {len(texts):,} lines"
    return Dataset(x=texts, y=None, texts=lambda: texts, description=description)


def read_multiple_choice(path: Path, asked: Asked, limit: int | None = None) -> Dataset:
    """Read questions with choices."""
    table = read_table(path, limit)
    context = table.find("context", asked.get("text"))
    question = table.require("question", asked.get("text_pair"))
    answer = table.require("answer", asked.get("label"))
    choices = table.choice_columns() or [table.require("choices")]
    options = table.read_choices(choices)
    texts = [
        table.read(name, "a text") for name in (context, question) if name is not None
    ]
    roles = [
        ("context", context),
        ("question", question),
        ("choices", ", ".join(choices)),
    ]
    return Dataset(
        x=(*texts, options),
        y=_read_answers(table, answer, options),
        place=table.where,
        columns=table.columns,
        texts=lambda: (text for texts in (*texts, *options) for text in texts),
        description=describe(table, [*roles, ("answer", answer)]),
    )


def _read_answers(table: Table, name: str, options: list[list[str]]) -> list[int]:
    """Read answers that are numbers or letters, from a table or JSON."""
    answers = []
    # One by one, as the message is to name the line.
    pairs = zip(table.columns[name], options, strict=True)
    for row, (value, choices) in enumerate(pairs):
        if isinstance(value, str):
            is_number = _NUMBER.fullmatch(value)
            value = int(value) if is_number else value.strip()  # noqa: PLW2901
        try:
            answer = encode_answers([value])
            check_answers(answer, np.array([len(choices)]))
        except ValueError as error:
            reason = str(error).removeprefix("Row 0 ")
            raise ValueError(f"{table.where(row)} {reason}") from error
        answers.append(int(answer[0]))
    return answers


def read_questions(path: Path, asked: Asked, limit: int | None = None) -> Dataset:
    """Read a file in SQuAD's format."""
    file = read_squad(path).take(slice(limit))

    empty = sum(not answer["text"] for answer in file.answers)
    return Dataset(
        x=file.x,
        y=file.answers,
        texts=lambda: chain(file.questions, dict.fromkeys(file.contexts)),
        description=f"{path}: {len(file.ids):,} questions, {empty:,} without an answer",
        # Only the conditional head can predict that there is no answer.
        head={"head": "conditional" if empty else "independent"},
    )


def read_similarity(path: Path, asked: Asked, limit: int | None = None) -> Dataset:
    """Read pairs of texts with scores."""
    data = _read_labelled(path, asked, limit, "score", needs_pair=True)
    return replace(data, head={}, highest=max(1.0, float(np.abs(data.y).max())))


def on_one_scale(files: Sequence[Dataset]) -> list[Dataset]:
    """Divide the scores of all files by the highest one, if they are to be cosines."""
    # The highest score of the scale may be in one file only.
    highest = max(data.highest for data in files)
    if highest == 1:
        return list(files)
    note = f"; scores divided by {highest:g}, to be cosines"
    return [
        replace(
            data,
            y=(np.asarray(data.y) / highest).tolist(),
            description=data.description + note,
        )
        for data in files
    ]


def read_tags(path: Path, asked: Asked, limit: int | None = None) -> Dataset:
    """Read words with tags."""
    if kind_of(path) in OBJECTS:
        table = read_table(path, limit)
        words = table.require("words", asked.get("text"))
        tags = table.require("tags", asked.get("label"))
        x = table.read(words, "a list of texts")
        y, columns = table.read(tags, "a list of labels"), table.columns
        description = describe(table, [("words", words), ("tags", tags)])
        where = partial(_place_in_table, table, y)
    else:
        x, y = (rows[:limit] for rows in read_conll(path))
        description = f"{path}: {len(x):,} texts, {sum(map(len, x)):,} words"
        _check_words(path, x, y)
        where, columns = partial(_place_in_conll, path), {}
    names = sorted({tag for row in y for tag in row})
    return Dataset(
        x=x,
        y=y,
        texts=lambda: map(" ".join, x),
        description=f"{description}; {len(names)} tags: {', '.join(names[:20])}",
        head={"labels": names},
        where=where,
        columns=columns,
    )


def _check_words(path: Path, words: list[list[str]], tags: list[list[str]]) -> None:
    """Raise if a file of words and tags is a table of texts, or has a header."""
    count = sum(map(len, words))
    texts = sum(len(word.split()) > 1 for row in words for word in row)
    if is_header(words[0][0], tags[0][0]) or 2 * texts > count:
        raise ValueError(
            f"{path} starts with {words[0][0]!r:.60} and {tags[0][0]!r:.60}, as a "
            "table does. Token classification reads CoNLL, a word and its tag on each "
            "line without a header, or JSON lines with words and tags."
        )


def _place_in_table(table: Table, rows: list[Any], name: str) -> str:
    """Return the first row with a label, or a tag, or several."""
    lists = ([row] if isinstance(row, str) else row for row in rows)
    return table.where(next(n for n, row in enumerate(lists) if name in row))


def _place_in_conll(path: Path, tag: str) -> str:
    lines = path.read_text("utf-8-sig").split("\n")
    ends = (line.rsplit("\t" if "\t" in line else None, 1)[-1:] for line in lines)
    number = next(
        n for n, end in enumerate(ends, 1) if [x.strip() for x in end] == [tag]
    )
    return f"{path}, line {number}"
