"""Multiple choice: the right one of several choices."""

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_albert.commands.files.table import Table, describe, read_table
from keras_albert.commands.finetune.report import Report
from keras_albert.commands.finetune.tasks.base import Data, Kind
from keras_albert.tasks import AlbertMultipleChoice
from keras_albert.text.multiple_choice.read_targets import check_answers, encode_answers

_CHOICE = re.compile(r"(?i:choice|option)[_ ]*(\d+|[A-Ha-h])|([A-H])")
_NUMBER = re.compile(r"\s*[0-9]{1,9}\s*")


def _read(path: Path, arguments: argparse.Namespace) -> Data:
    table = read_table(path, arguments.limit)
    context = table.find("context", arguments.text_column)
    question = table.require("question", arguments.text_pair_column)
    answer = table.require("answer", arguments.label_column)
    choices = table.find("choices")
    if choices is not None:
        options = table.lists(choices)
    else:
        # Tables have a column for each choice: choice0, choice1, ..., or A, B, ...
        names = choice_columns_of(table.columns)
        columns = [table.texts(name) for name in names]
        options = [
            read_choices(row, f"{path}, row {number}")
            for number, row in enumerate(zip(*columns, strict=True))
        ]
        choices = ", ".join(names)
        if not names:
            table.require("choices")
    texts = [table.texts(name) for name in (context, question) if name is not None]
    roles = [("context", context), ("question", question), ("choices", choices)]

    def all_texts() -> Iterator[str]:
        for column in texts:
            yield from column
        for row in options:
            yield from row

    return Data(
        x=(*texts, options),
        y=_read_answers(table, answer, options),
        texts=all_texts,
        description=describe(table, [*roles, ("answer", answer)]),
    )


def choice_columns_of(names: Iterable[str]) -> list[str]:
    """Find the columns of the choices, and sort them.

    Args:
        names: The columns of a table.

    Returns:
        Those named choice0, option_1, A, ..., in the order of the numbers or letters.

    Example:
        >>> choice_columns_of(["question", "B", "A", "AB"])
        ['A', 'B']
    """
    found = [(_CHOICE.fullmatch(name.strip()), name) for name in names]
    columns = [(match[1] or match[2], name) for match, name in found if match]
    # By length first, so that numbers are sorted by value.
    return [
        name for _, name in sorted(columns, key=lambda c: (len(c[0]), c[0].lower()))
    ]


def read_choices(row: Sequence[Any], where: str) -> list[Any]:
    """Read the choices of a row; rows may have different numbers of choices.

    Args:
        row: A cell for each column of choices; those at the end may be empty.
        where: string. The file and the row, for the message.

    Returns:
        The choices.

    Raises:
        ValueError: If an empty cell precedes a non-empty one: it would change the
            numbers of the choices.
    """
    count = max((number for number, text in enumerate(row, 1) if text), default=0)
    if not all(row[:count]):
        msg = (
            f"{where} has no choice {row.index('') if '' in row else 0}, and has one "
            "after it. Move the choices up, or fill it in."
        )
        raise ValueError(msg)
    return list(row[:count])


def _read_answers(table: Table, name: str, options: list[list[str]]) -> list[int]:
    """Read answers that are numbers or letters, from a table or JSON."""
    values = [
        int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value
        for value in table.columns[name]
    ]
    values = [v.strip() if isinstance(v, str) else v for v in values]
    try:
        answers = encode_answers(values)
        check_answers(answers, np.array([len(row) for row in options]))
    except ValueError as error:
        raise ValueError(f"{table.path}: {error}") from error
    return [int(answer) for answer in answers]


def _report(task: AlbertMultipleChoice, data: Data) -> Report:
    scores = task.evaluate(data.x, data.y, verbose=0, return_dict=True)
    return Report({name: float(value) for name, value in scores.items()})


MULTIPLE_CHOICE = Kind(
    AlbertMultipleChoice,
    _read,
    _report,
    ("val_accuracy", "max"),
    'model.choose("a context", "a question", ["yes", "no"])',
)
