"""`keras-albert evaluate` and `calibrate`: how good a trained model is."""

import argparse
import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

from keras_albert.checkpoints.convert import load_task
from keras_albert.commands.answer_file import to_json
from keras_albert.commands.datasets import Dataset, on_one_scale
from keras_albert.commands.metrics import (
    EvaluatedRows,
    Evaluation,
    Scores,
    check_labels,
)
from keras_albert.commands.report import draw_confusion, plain_console, show_report
from keras_albert.commands.tasks import known_task
from keras_albert.tasks import AlbertClassifier
from keras_albert.tasks.classification.explain import explain_texts
from keras_albert.training.run_folder import write_report
from keras_albert.utils.atomic_files import atomic_directory
from keras_albert.utils.environment import new_figure, versions

Rows = npt.NDArray[np.int64]

_CONFIDENCE = (2.5, 97.5)
_BINS = 10
_MAX_GROUPS = 20
_MAX_CHARACTERS = 300
# Of integrated gradients: one batch for each text, and parts differ by 0.01 or less.
_STEPS = 31


def run_evaluate(arguments: argparse.Namespace) -> None:
    """Run the command."""
    task = load_task(arguments.preset, arguments.task)
    known = known_task(task)
    (data,) = on_one_scale([known.read(arguments.file, arguments)])
    groups = _groups(data, arguments.slice)
    if arguments.explain and not is_explained(task):
        raise ValueError(
            "`explain=True` works for single-label classifiers and regressions. "
            f"Received: an {type(task).__name__}. Leave it out."
        )
    console = plain_console()
    console.print(data.description, highlight=False)
    evaluation = known.evaluate(task, data)
    contents = measure(evaluation, groups, arguments.resamples, arguments.seed)
    report = replace(evaluation.report, scores=contents["scores"])
    show_report(console, report, contents["intervals"])
    if evaluation.rows is not None:
        for name, rows in contents["groups"].items():
            console.print(_table_of_groups(name, rows))
        shown = arguments.worst, arguments.explain
        for line in worst_rows(task, data, evaluation.rows, *shown):
            console.print(line, highlight=False, soft_wrap=True)
    if arguments.output is not None:
        settings = {k: v for k, v in vars(arguments).items() if k != "output"}
        contents |= {"settings": settings, "versions": versions()}
        _write(arguments.output, contents, evaluation, data)
        console.print(f"report: {arguments.output / 'report.json'}", soft_wrap=True)


def measure(
    evaluation: Evaluation,
    groups: Mapping[str, Mapping[str, Rows]],
    resamples: int,
    seed: int,
) -> dict[str, Any]:
    """Return an evaluation with intervals, calibration and groups, as JSON values."""
    contents = evaluation.report.to_dict() | {"intervals": {}, "groups": {}}
    rows = evaluation.rows
    if rows is None:
        return contents
    contents["intervals"] = intervals(rows.score, len(rows.errors), resamples, seed)
    if rows.probabilities is not None and rows.is_right is not None:
        bins = calibration(rows.probabilities, rows.is_right)
        contents["calibration"] = bins
        gaps = [row["rows"] * abs(row["accuracy"] - row["probability"]) for row in bins]
        error = {"calibration error": sum(gaps) / len(rows.errors)}
        contents["scores"] = evaluation.report.scores | error
    contents["groups"] = {
        name: [
            {"group": group, "rows": len(numbers)} | rows.score(numbers)
            for group, numbers in parts.items()
        ]
        for name, parts in groups.items()
    }
    return contents


def intervals(
    score: Callable[[Rows], Scores], count: int, resamples: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Return the 95% intervals of metrics, by the bootstrap over rows."""
    # Percentiles, as in [Efron, 1979](https://doi.org/10.1214/aos/1176344552).
    draws = np.random.default_rng(seed)
    found = [score(draws.integers(count, size=count)) for _ in range(resamples)]
    names = dict.fromkeys(name for each in found for name in each)
    return {
        name: tuple(
            np.percentile([e[name] for e in found if name in e], _CONFIDENCE).tolist()
        )
        for name in names
    }


def calibration(
    probabilities: npt.NDArray[Any], is_right: npt.NDArray[Any]
) -> list[dict[str, float]]:
    """Compare the probabilities of answers with how many are right, in equal bins."""
    # [Guo et al., 2017](https://arxiv.org/abs/1706.04599).
    places = np.minimum((probabilities * _BINS).astype(int), _BINS - 1)
    return [
        {
            "from": place / _BINS,
            "to": (place + 1) / _BINS,
            "rows": int(inside.sum()),
            "probability": float(probabilities[inside].mean()),
            "accuracy": float(is_right[inside].mean()),
        }
        for place in range(_BINS)
        if (inside := places == place).any()
    ]


def _groups(data: Dataset, column: str | None) -> dict[str, dict[str, Rows]]:
    """Return the rows of each quarter by length, and of each value of a column."""
    lengths = np.array([_num_words(row) for row in data.rows()])
    edges = np.unique(np.quantile(lengths, (0, 0.25, 0.5, 0.75, 1)).astype(int))
    places = np.searchsorted(edges[1:-1], lengths, side="left")
    found: dict[str, dict[str, Rows]] = {"words": {}}
    for place in np.unique(places):
        numbers = np.flatnonzero(places == place)
        least, most = lengths[numbers].min(), lengths[numbers].max()
        name = f"{least} to {most}" if least < most else f"{least}"
        found["words"][name] = numbers
    if column is not None:
        found[column] = _by_value(data, column)
    return found


def _by_value(data: Dataset, column: str) -> dict[str, Rows]:
    if column not in data.columns:
        known = ", ".join(data.columns) or "no columns"
        raise ValueError(
            f"`slice={column}` is not a column of the file, which has {known}. Name "
            "another one."
        )
    values = np.array([str(value) for value in data.columns[column]])
    names, counts = np.unique(values, return_counts=True)
    if len(names) > _MAX_GROUPS:
        raise ValueError(
            f"The column {column!r} has {len(names):,} different values, but at most "
            f"{_MAX_GROUPS} can be shown. Choose a column with fewer."
        )
    order = np.argsort(-counts, kind="stable")
    return {str(names[n]): np.flatnonzero(values == names[n]) for n in order}


def _num_words(row: tuple[Any, ...]) -> int:
    return sum(len(x.split()) if isinstance(x, str) else len(x) for x in row)


def _table_of_groups(name: str, rows: Sequence[dict[str, Any]]) -> Table:
    columns = dict.fromkeys(key for row in rows for key in row if key != "group")
    table = Table(name, *columns)
    for row in rows:
        cells = [row.get(key) for key in columns]
        shown = (f"{x:.4g}" if isinstance(x, float) else str(x or "-") for x in cells)
        table.add_row(row["group"], *shown)
    return table


def is_explained(task: Any) -> bool:
    """Return whether `worst_rows` can name the words behind answers of a task."""
    return isinstance(task, AlbertClassifier) and not task.is_multi_label


def worst_rows(
    task: Any, data: Dataset, rows: EvaluatedRows, count: int, explain: bool
) -> list[str]:
    """Describe the wrong answers with the largest errors, and the words behind them."""
    is_wrong = rows.errors > 0 if rows.is_right is None else ~rows.is_right
    order = np.argsort(-rows.errors, kind="stable")
    worst = order[is_wrong[order]][:count].tolist()
    reasons = [""] * len(worst)
    if explain and worst:
        inputs = list(data.rows())
        texts = [x if len(x := inputs[number]) > 1 else x[0] for number in worst]
        is_score = task.is_regression
        labels = [None if is_score else rows.answers[number] for number in worst]
        reasons = [
            "\n  because of "
            + ", ".join(f"{word.text!r} {word.part:+.2f}" for word in found.top())
            for found in explain_texts(task, texts, labels, _STEPS)
        ]
    return [
        _describe(data, rows, number) + reason
        for number, reason in zip(worst, reasons, strict=True)
    ]


def _describe(data: Dataset, rows: EvaluatedRows, number: int) -> str:
    truth, answer = map(_shown, (rows.truth[number], rows.answers[number]))
    score = ""
    if rows.probabilities is not None:
        score = f" ({rows.probabilities[number]:.3f})"
    text = shorten(data.row_text(number), _MAX_CHARACTERS)
    return f"{data.place(number)}: {text}\n  is {truth}, the model says {answer}{score}"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def _write(
    output: Path, contents: dict[str, Any], evaluation: Evaluation, data: Dataset
) -> None:
    """Write the report, all rows by their errors, and the plots."""
    report, rows = evaluation.report, evaluation.rows
    with atomic_directory(output) as folder:
        write_report(folder / "report.json", contents)
        if rows is not None:
            inputs = list(data.rows())
            with (folder / "rows.jsonl").open("w", encoding="utf-8") as file:
                for number in np.argsort(-rows.errors, kind="stable").tolist():
                    row = {
                        "row": number,
                        "place": data.place(number),
                        "inputs": inputs[number],
                        "truth": rows.truth[number],
                        "answer": rows.answers[number],
                        "error": rows.errors[number],
                    }
                    if rows.probabilities is not None:
                        row["probability"] = rows.probabilities[number]
                    file.write(json.dumps(to_json(row), ensure_ascii=False) + "\n")
        if importlib.util.find_spec("matplotlib") is None:
            return
        if report.confusion is not None:
            draw_confusion(folder / "confusion.png", report.confusion, report.names)
        if "calibration" in contents:
            _draw_calibration(folder / "calibration.png", contents["calibration"])


def _draw_calibration(path: Path, bins: Sequence[dict[str, float]]) -> None:
    figure = new_figure(4.5, 4.5)
    axis = figure.subplots()
    axis.plot([0, 1], [0, 1], color="gray", linewidth=0.8)
    axis.bar(
        [row["from"] for row in bins],
        [row["accuracy"] for row in bins],
        1 / _BINS,
        align="edge",
        alpha=0.6,
    )
    axis.plot([r["probability"] for r in bins], [r["accuracy"] for r in bins], "o")
    axis.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability", ylabel="accuracy")
    figure.savefig(path, dpi=120)


def run_calibrate(arguments: argparse.Namespace) -> None:
    """Run the command."""
    task = load_task(arguments.preset)
    if not isinstance(task, AlbertClassifier):
        raise ValueError(
            f"Only classifiers can be calibrated. Received: {arguments.preset}, an "
            f"{type(task).__name__}. Pass a model that `keras-albert finetune "
            "classification` wrote."
        )
    data = known_task(task).read(arguments.file, arguments)
    console = plain_console()
    console.print(data.description, highlight=False)
    if not task.is_regression:
        check_labels(task, data)
    found = task.calibrate(data.x, data.y, arguments.error_rate)
    task.save_to_preset(arguments.output)
    for name, value in found.items():
        console.print(f"{name.replace('_', ' ')}: {value:.4f}", highlight=False)
    console.print(f"model: {arguments.output}", soft_wrap=True)
