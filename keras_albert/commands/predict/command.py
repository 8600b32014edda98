"""`keras-albert predict`: writes predictions for the rows of a file."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from keras_albert.commands.files.rows import FileRows, Row
from keras_albert.commands.predict.input_columns import InputColumns
from keras_albert.commands.predict.open_predictor import open_predictor
from keras_albert.commands.predict.output_file import AnswerFile
from keras_albert.commands.predict.output_lines import FORMATS, AnswerLines
from keras_albert.commands.predict.predictor import Predictor

# The number of batches that are read at once, to group rows of similar length.
_BATCHES_AT_ONCE = 16


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    rows = FileRows(arguments.file)
    if arguments.output is None:
        lines = AnswerLines(arguments.to or FORMATS[0])
        for answers in _answers(arguments, rows, 0):
            sys.stdout.buffer.write(lines.encode(answers))
            sys.stdout.buffer.flush()
        return
    file = AnswerFile(arguments.output, _format(arguments), _settings(arguments))
    with file:
        if file.done:
            print(f"going on after {file.done:,} rows", file=sys.stderr)
        try:
            for answers in _watched(_answers(arguments, rows, file.done), rows):
                file.write(answers)
        except KeyboardInterrupt as stop:
            stop.add_note("the same command goes on from here")
            raise
        file.finish()
    print(arguments.output, file=sys.stderr)


def _format(arguments: argparse.Namespace) -> str:
    suffix = arguments.output.suffix.lower().removeprefix(".")
    return arguments.to or (suffix if suffix in FORMATS else FORMATS[0])


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return what identifies the run: options, and size and time of FILE and MODEL."""
    settings = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(arguments).items()
        if name not in ("output", "to", "batch_size")
    }
    for name in ("file", "model", "preset"):
        if (path := getattr(arguments, name)) is not None:
            settings |= _size_and_time(name, Path(path))
    return settings | {"format": _format(arguments)}


def _size_and_time(name: str, path: Path) -> dict[str, int]:
    """Return the size and the latest change of a file, or of all in a directory.

    Nothing if it does not exist: a built-in name or a handle.
    """
    files = [p for p in (path, *path.rglob("*")) if p.is_file()]
    found = [file.stat() for file in files]
    if not found:
        return {}
    return {
        f"bytes of {name}": sum(each.st_size for each in found),
        f"change of {name}": max(each.st_mtime_ns for each in found),
    }


def _answers(
    arguments: argparse.Namespace, rows: FileRows, done: int
) -> Iterator[list[dict[str, Any]]]:
    """Predict for the rows after those that are done, in parts."""
    predictor = open_predictor(
        arguments.model,
        arguments.batch_size,
        arguments.task,
        arguments.preset,
        arguments.signature,
        **_depth(arguments),
    )
    asked = {
        "text": arguments.text_column,
        "text_pair": arguments.text_pair_column,
    }
    with closing(predictor):
        if not rows.columns:
            return
        columns = InputColumns(rows, predictor.inputs, asked)
        left = ((rows.line, row) for row in islice(rows, done, None))
        while part := list(islice(left, arguments.batch_size * _BATCHES_AT_ONCE)):
            yield _ask(predictor, columns, part, rows.path)


def _depth(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options of depth that were given."""
    names = ("num_layers", "patience", "threshold", "tolerance", "return_depths")
    given = {name: getattr(arguments, name) for name in names}
    # By identity: 0 equals False.
    return {
        name: value
        for name, value in given.items()
        if value is not None and value is not False
    }


def _ask(
    predictor: Predictor,
    columns: InputColumns,
    rows: list[tuple[int, Row]],
    path: Path,
) -> list[dict[str, Any]]:
    inputs = columns.read(rows)
    try:
        return predictor.predict(inputs)
    except ValueError as error:
        msg = f"{path}, in lines {rows[0][0]} to {rows[-1][0]}: {error}"
        raise ValueError(msg) from error


def _watched(
    parts: Iterator[list[dict[str, Any]]], rows: FileRows
) -> Iterator[list[dict[str, Any]]]:
    """Show a progress bar of the file."""
    console = Console(stderr=True)
    bar = Progress(
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task("", total=max(1, rows.path.stat().st_size), rows=0)
        count = 0
        for part in parts:
            yield part
            count += len(part)
            bar.update(task, completed=rows.position, rows=count)
