"""`keras-albert finetune`: fine-tunes a model on a user's files."""

import argparse
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import keras
from rich.console import Console
from rich.table import Table

from keras_albert.commands.console import plain_console
from keras_albert.commands.finetune.build import build_task
from keras_albert.commands.finetune.report import (
    ON_CARD,
    Report,
    draw,
    model_card,
    write_report,
)
from keras_albert.commands.finetune.tasks import (
    KINDS,
    Data,
    Kind,
    check_files,
    on_one_scale,
)
from keras_albert.commands.finetune.training import train_task
from keras_albert.presets.preset_files import preset_directory
from keras_albert.tasks.distribution.processes import check_processes
from keras_albert.training.run_folder import RunFolder
from keras_albert.training.training_curve import Row, write_table

# The locations of files and the card do not affect the result.
_NOT_COMPARED = ("output", "train", "dev", *ON_CARD)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    check_processes("training")
    console = plain_console()
    folder = RunFolder(arguments.output)
    try:
        with folder.locked():
            _run(arguments, folder, console)
    except KeyboardInterrupt as stop:
        stop.add_note("the same command goes on")
        raise


def _run(arguments: argparse.Namespace, folder: RunFolder, console: Console) -> None:
    kind = KINDS[arguments.task]
    if not folder.last.is_file():
        folder.check_unfinished()
    files = [kind.read(path, arguments) for path in (arguments.train, arguments.dev)]
    check_files(*files)
    train, dev = on_one_scale(files)
    for data in (train, dev):
        console.print(data.description, highlight=False)
    keras.utils.set_random_seed(arguments.seed)
    task = build_task(kind, train, arguments)
    identity = _identity(arguments, task)
    checkpoint = folder.open(identity)
    if folder.preset.exists():
        # The run was interrupted during cleanup.
        folder.tidy_up()
        console.print(f"model: {folder.preset}", soft_wrap=True)
        return
    recorder = train_task(
        *(kind, task, train, dev, arguments),
        *(folder, identity, checkpoint, console),
    )
    recorder.load_best(task)
    _finish(kind, task, dev, arguments, folder, recorder.rows, console)


def _identity(arguments: argparse.Namespace, task: Any) -> dict[str, Any]:
    """Describe a run, so that a repeated command can be recognized."""
    options = {
        name: value
        for name, value in vars(arguments).items()
        if name not in _NOT_COMPARED
    }
    return options | {
        "training file": _file_digest(arguments.train),
        "dev file": _file_digest(arguments.dev),
        "vocabulary": _digest(task.preprocessor.tokenizer.proto),
        "backbone": _digest(_config(task.backbone)),
        "backend": keras.config.backend(),
    }


def _config(backbone: Any) -> bytes:
    config = backbone.get_config()
    # Keras numbers models in the order of their creation.
    del config["name"]
    return json.dumps(config, sort_keys=True, default=str).encode()


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _finish(
    kind: Kind,
    task: Any,
    dev: Data,
    arguments: argparse.Namespace,
    folder: RunFolder,
    rows: list[Row],
    console: Console,
) -> None:
    """Write the reports and the model; the preset last."""
    settings = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(arguments).items()
        if name != "output"
    }
    report = kind.report(task, dev)
    write_report(folder.path, report, rows, settings)
    write_table(folder.path / "curve.csv", rows)
    plots = draw(folder.path, report, rows)
    card = model_card(
        *(arguments.task, kind.pipeline_tag, kind.use, report),
        *(vars(arguments) | {"output": None}, task, plots),
    )
    with preset_directory(folder.preset) as finished:
        task.save_to_preset(finished)
        for picture in plots:
            shutil.copy(picture, finished)
        (finished / "README.md").write_text(card, encoding="utf-8")
    folder.tidy_up()
    _show(console, report)
    console.print(f"model: {folder.preset}\nreport: {folder.path / 'report.json'}")
    for plot in plots or ("none: pip install matplotlib",):
        console.print(f"plot: {plot}")


def _show(console: Console, report: Report) -> None:
    table = Table("metric", "dev")
    for name, value in report.scores.items():
        table.add_row(name, f"{value:.4f}")
    console.print(table)
    if not report.classes:
        return
    columns = next(iter(report.classes.values()))
    table = Table("class", *columns)
    for name, row in report.classes.items():
        table.add_row(name, *(f"{value:.4g}" for value in row.values()))
    console.print(table)
