"""`keras-albert check`, `evaluate` and `calibrate`."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from keras_albert import tools
from keras_albert.checkpoints.convert import load_task
from keras_albert.cli.commands import Calibrate, Check, Evaluate
from keras_albert.cli.console import plain_console, show_report
from keras_albert.tasks import AlbertClassifier
from keras_albert.tools.datasets import read_texts
from keras_albert.tools.evaluation import check_explained
from keras_albert.tools.metrics import check_labels
from keras_albert.tools.tasks import TASKS, file_task
from keras_albert.training.run_folder import write_report
from keras_albert.utils.environment import versions


def check(options: Check) -> int:
    """Run `keras-albert check`; the status is 1 if there are errors."""
    console, how = plain_console(), (options.columns, options.limit)
    paths = [path for path in (options.train, options.dev) if path is not None]
    files = [TASKS[options.task].read(path, *how) for path in paths]
    for data in files:
        console.print(data.description, highlight=False)
    findings = tools.check(
        *files,
        task=options.task,
        preset=options.preset,
        unlabelled=options.unlabelled and read_texts(options.unlabelled, *how),
        verbose=console.is_terminal,
    )
    for finding in findings:
        console.print(str(finding), highlight=False)
        for example in finding.examples[: options.examples]:
            console.print(f"  {example}", highlight=False, soft_wrap=True)
    errors = sum(finding.is_error for finding in findings)
    console.print(f"errors: {errors}, notes: {len(findings) - errors}")
    if options.output is not None:
        write_report(options.output, {"findings": [asdict(each) for each in findings]})
    return int(errors > 0)


def evaluate(options: Evaluate) -> None:
    """Run `keras-albert evaluate`."""
    task = load_task(options.preset, options.task)
    if options.explain:
        check_explained(task)
    (data,) = file_task(task).read_all([options.file], options.columns, options.limit)
    console = plain_console()
    console.print(data.description, highlight=False)
    how = options.slice, options.resamples, options.seed
    found = tools.evaluate(task, data, slice=how[0], resamples=how[1], seed=how[2])
    show_report(console, found.report, found.intervals)
    for name, rows in found.groups.items():
        console.print(_table_of_groups(name, rows))
    for line in found.worst(options.worst, options.explain):
        console.print(line, highlight=False, soft_wrap=True)
    if options.output is not None:
        settings = {k: v for k, v in asdict(options).items() if k != "output"}
        found.save(options.output, settings=settings, versions=versions())
        console.print(f"report: {options.output / 'report.json'}", soft_wrap=True)


def _table_of_groups(name: str, rows: Sequence[dict[str, Any]]) -> Table:
    columns = dict.fromkeys(key for row in rows for key in row if key != "group")
    table = Table(name, *columns)
    for row in rows:
        cells = [row.get(key) for key in columns]
        shown = (f"{x:.4g}" if isinstance(x, float) else str(x or "-") for x in cells)
        table.add_row(row["group"], *shown)
    return table


def calibrate(options: Calibrate) -> None:
    """Run `keras-albert calibrate`."""
    task = load_task(options.preset)
    if not isinstance(task, AlbertClassifier):
        raise ValueError(
            f"Only classifiers can be calibrated. Received: {options.preset}, an "
            f"{type(task).__name__}. Pass a model that `keras-albert finetune "
            "classification` wrote."
        )
    data = file_task(task).read(options.file, options.columns, options.limit)
    console = plain_console()
    console.print(data.description, highlight=False)
    if not task.is_regression:
        check_labels(task, data)
    found = task.calibrate(data.x, data.y, options.error_rate)
    task.save_to_preset(options.output)
    for name, value in found.items():
        console.print(f"{name.replace('_', ' ')}: {value:.4f}", highlight=False)
    console.print(f"model: {options.output}", soft_wrap=True)
