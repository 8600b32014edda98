"""The right one of several choices."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_albert.commands.kinds.kind import Data, Kind
from keras_albert.commands.run_report import Report
from keras_albert.commands.training_files import describe, read_table
from keras_albert.tasks import AlbertMultipleChoice


def _read(path: Path, arguments: argparse.Namespace) -> Data:
    table = read_table(path, arguments.limit)
    context = table.find("context", arguments.text_column)
    question = table.require("question", arguments.text_pair_column)
    answer = table.require("answer", arguments.label_column)
    choices = table.find("choices")
    if choices is not None:
        options: list[Any] = table.columns[choices]
    else:
        # A table has a column for each: choice0, choice1, ..., or A, B, ...
        names = [name for name in table.columns if is_choice_column(name)]
        columns = [table.texts(name) for name in names]
        rows = zip(*columns, strict=True)
        options = [[text for text in row if text] for row in rows]
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
        y=[_read_answer(value) for value in table.columns[answer]],
        texts=all_texts,
        description=describe(table, [*roles, ("answer", answer)]),
    )


def is_choice_column(name: str) -> bool:
    """Whether a column of a table holds a choice: choice0, option_1, A, ..."""
    stem = name.lower().removeprefix("choice").removeprefix("option").strip("_ ")
    has_prefix = stem != name.lower()
    return (has_prefix and (stem.isdigit() or len(stem) == 1)) or name in "ABCDEFGH"


def _read_answer(value: Any) -> Any:
    """Read a number that a table holds as text; letters stay."""
    return int(value) if isinstance(value, str) and value.isdigit() else value


def _report(task: AlbertMultipleChoice, data: Data) -> Report:
    scores = task.evaluate(data.x, data.y, verbose=0, return_dict=True)
    return Report({name: float(value) for name, value in scores.items()})


MULTIPLE_CHOICE = Kind(
    AlbertMultipleChoice,
    _read,
    _report,
    ("val_accuracy", "max"),
    "JSON lines: perhaps context, question, choices, answer (number or letter)",
    'model.choose("a context", "a question", ["yes", "no"])',
)
