"""The functions of the commands that the table of tasks names, for each task."""

import argparse
import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_albert import tasks
from keras_albert.commands import judge as judges
from keras_albert.commands.answer_file import Answer
from keras_albert.commands.files import (
    OBJECTS,
    TABLES,
    Dataset,
    FileRows,
    Table,
    describe,
    is_header,
    kind_of,
    read_table,
)
from keras_albert.commands.report import Report
from keras_albert.tasks.base.task import AlbertTask
from keras_albert.tasks.table import TASKS as ROWS
from keras_albert.tasks.table import Finetuning, TaskRow
from keras_albert.tasks.text_embedding.objectives import cosine_scores
from keras_albert.text.dataset_files import read_conll, read_squad
from keras_albert.text.tasks.multiple_choice import check_answers, encode_answers

_NUMBER = re.compile(r"\s*[0-9]{1,9}\s*")


Columns = dict[str, list[Any]]


class CommandTask:
    """A row of the table of tasks with its class and the functions that it names."""

    def __init__(self, row: TaskRow, finetuning: Finetuning | None = None) -> None:
        self.row = row
        self.cls: Any = getattr(tasks, row.name)
        self.predict: Callable[..., list[Answer]] = globals()[row.predict]
        self._finetuning = finetuning

    @property
    def finetuning(self) -> Finetuning:
        """How it is trained."""
        if self._finetuning is None:
            raise ValueError("This task is trained by `keras-albert pretrain`.")
        return self._finetuning

    def read(self, path: Path, arguments: argparse.Namespace) -> Dataset:
        """Read a file of examples."""
        data: Dataset = globals()[self.finetuning.read](path, arguments)
        return data

    def judge(self, task: AlbertTask, data: Dataset) -> judges.Judgement:
        """Judge a model on a file."""
        found: judges.Judgement = getattr(judges, self.finetuning.judge)(task, data)
        return found

    def report(self, task: AlbertTask, data: Dataset) -> Report:
        """Judge a trained model on a file, after what is chosen by a part of it."""
        if self.finetuning.tune:
            data = getattr(judges, self.finetuning.tune)(task, data)
        return self.judge(task, data).report


def _read_labelled(
    path: Path, arguments: argparse.Namespace, target: str, needs_pair: bool = False
) -> Dataset:
    table = read_table(path, arguments.limit)
    first = table.require("text", arguments.text_column)
    find = table.require if needs_pair else table.find
    second = find("text_pair", arguments.text_pair_column)
    label = table.require(target, arguments.label_column)
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
        what = "labels, of which a text may have several" if several else "classes"
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
            "`train` and `dev` hold the same examples, so that the scores would say "
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


def read_texts(path: Path, arguments: argparse.Namespace) -> Dataset:
    """Read lines, or a column of texts."""
    if kind_of(path) in TABLES:
        table = read_table(path, arguments.limit)
        column = table.require("text", arguments.text_column)
        texts = table.read(column, "a text")
        description = describe(table, [("text", column)])
    else:
        rows = FileRows(path, (kind_of(path),))
        lines = (row["text"] for row in rows if row["text"].strip())
        texts = list(islice(lines, arguments.limit))
        if not texts:
            raise ValueError(f"{path} contains no text. Pass a file with text.")
        description = f"{path}: {len(texts):,} lines"
    return Dataset(x=texts, y=None, texts=lambda: texts, description=description)


def read_multiple_choice(path: Path, arguments: argparse.Namespace) -> Dataset:
    """Read questions with choices."""
    table = read_table(path, arguments.limit)
    context = table.find("context", arguments.text_column)
    question = table.require("question", arguments.text_pair_column)
    answer = table.require("answer", arguments.label_column)
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


def read_questions(path: Path, arguments: argparse.Namespace) -> Dataset:
    """Read a file in SQuAD's format."""
    file = read_squad(path).take(slice(arguments.limit))

    empty = sum(not answer["text"] for answer in file.answers)
    return Dataset(
        x=file.x,
        y=file.answers,
        texts=lambda: chain(file.questions, dict.fromkeys(file.contexts)),
        description=f"{path}: {len(file.ids):,} questions, {empty:,} without an answer",
        # Only the conditional head can predict that there is no answer.
        head={"head": "conditional" if empty else "independent"},
    )


def read_similarity(path: Path, arguments: argparse.Namespace) -> Dataset:
    """Read pairs of texts with scores."""
    data = _read_labelled(path, arguments, "score", needs_pair=True)
    return replace(data, head={}, highest=max(1.0, float(np.abs(data.y).max())))


def on_one_scale(files: Sequence[Dataset]) -> list[Dataset]:
    """Divide the scores of all files by the highest one, if they are to be cosines."""
    # One file alone may lack the highest score of the scale.
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


def read_tags(path: Path, arguments: argparse.Namespace) -> Dataset:
    """Read words with tags."""
    if kind_of(path) in OBJECTS:
        table = read_table(path, arguments.limit)
        words = table.require("words", arguments.text_column)
        tags = table.require("tags", arguments.label_column)
        x = table.read(words, "a list of texts")
        y, columns = table.read(tags, "a list of labels"), table.columns
        description = describe(table, [("words", words), ("tags", tags)])
        where = partial(_place_in_table, table, y)
    else:
        x, y = (rows[: arguments.limit] for rows in read_conll(path))
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
            f"{path} begins with {words[0][0]!r:.60} and {tags[0][0]!r:.60}, as a "
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


def _texts(columns: Columns) -> Any:
    pairs = "text_pair" in columns
    return (columns["text"], columns["text_pair"]) if pairs else columns["text"]


def classify(
    task: AlbertTask, columns: Columns, batch_size: int, **exits: Any
) -> list[Answer]:
    """Predict classes."""
    answers = task.classify(_texts(columns), batch_size=batch_size, **exits)
    # Multi-label classification returns a list for each text.
    return [row if isinstance(row, dict) else {"labels": row} for row in answers]


def fill_masks(task: AlbertTask, columns: Columns, batch_size: int) -> list[Answer]:
    """Predict the tokens of masks."""
    mask = task.preprocessor.tokenizer.mask_token
    if not any(mask in text for texts in columns.values() for text in texts):
        raise ValueError(
            f"No text has a {mask}, and the model fills masks. For labels, train a "
            "head on it first: `keras-albert finetune classification --preset ...`."
        )
    answers = task.fill_mask(_texts(columns), batch_size=batch_size)
    return [{"masks": row} for row in answers]


def tag(task: AlbertTask, columns: Columns, batch_size: int) -> list[Answer]:
    """Find entities."""
    answers = task.tag(columns["text"], batch_size=batch_size)
    return [{"entities": row} for row in answers]


def answer(task: AlbertTask, columns: Columns, batch_size: int) -> list[Answer]:
    """Find answers."""
    texts = columns["question"], columns["context"]
    return list(task.answer(*texts, batch_size=batch_size))


def choose(task: AlbertTask, columns: Columns, batch_size: int) -> list[Answer]:
    """Choose among choices."""
    texts = columns.get("context"), columns["question"], columns["choices"]
    return list(task.choose(*texts, batch_size=batch_size))


def embed(task: AlbertTask, columns: Columns, batch_size: int) -> list[Answer]:
    """Return vectors, or the similarities of pairs."""
    vectors = task.embed(_texts(columns), batch_size=batch_size)
    if "text_pair" not in columns:
        return [{"embedding": vector} for vector in vectors]
    cosines = keras.ops.convert_to_numpy(cosine_scores(vectors))
    return [{"similarity": cosine} for cosine in cosines[:, 0]]


def score_order(task: AlbertTask, columns: Columns, batch_size: int) -> list[Answer]:
    """Return the probability that the second text follows the first."""
    scores = task.score_order(*_texts(columns), batch_size=batch_size)
    return [{"score": score} for score in scores]


TASKS = {
    name: CommandTask(row, how)
    for row in ROWS.values()
    for name, how in row.finetuning.items()
}


def known_task(task: AlbertTask) -> CommandTask:
    """Return what is known of a task, also of a subclass."""
    for cls in type(task).__mro__:
        if row := ROWS.get(cls.__name__):
            ways: list[Finetuning | None] = [*row.finetuning.values()] or [None]
            return CommandTask(row, ways[getattr(task, "is_regression", None) is True])
    raise ValueError(f"What to ask of an {type(task).__name__} is not known.")
