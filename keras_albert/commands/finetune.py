"""`keras-albert finetune`: a model from somebody's own files."""

import argparse
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
from rich.console import Console
from rich.table import Table

from keras_albert.commands.finetune_build import build_task
from keras_albert.commands.kinds import KINDS
from keras_albert.commands.resumable_training import TrainingFolder
from keras_albert.commands.run_report import Report, draw, model_card, write_report
from keras_albert.presets.atomic_directory import atomic_directory
from keras_albert.tasks.recipes import RECIPE_NAMES, recipe

_HELP = """Fine-tune on your own files.

The best epoch by the dev file is kept. OUTPUT gets a preset with a model card, the
report and, where matplotlib is installed, plots. Stop with Ctrl-C; the same command
goes on from the last whole epoch.
"""


def add_parser(commands: Any) -> None:
    """Add the command to the command line's parsers."""
    parser = commands.add_parser(
        "finetune",
        help="fine-tune a model on your own files",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:<22}{kind.files}" for name, kind in KINDS.items()),
    )
    parser.add_argument("task", choices=KINDS, metavar="TASK", help="one of the below")
    parser.add_argument(
        "--preset",
        help="weights to start from: a built-in name, a directory or a handle; without "
        "it a small model learns from random weights",
    )
    parser.add_argument("--train", type=Path, required=True, help="the training file")
    parser.add_argument("--dev", type=Path, required=True, help="the file to judge by")
    parser.add_argument("--output", type=Path, required=True, help="a new directory")
    parser.add_argument(
        "--recipe",
        choices=RECIPE_NAMES,
        help="with a preset: learn as the paper did for this task",
    )
    parser.add_argument("--epochs", type=int, help="by default 3, or the recipe's")
    parser.add_argument("--batch-size", type=int, help="by default 32, or the recipe's")
    parser.add_argument("--learning-rate", type=float, help="the peak; by default auto")
    parser.add_argument(
        "--max-length", type=int, help="tokens in a row; by default 128"
    )
    parser.add_argument("--limit", type=int, help="use only so many examples a file")
    parser.add_argument("--seed", type=int, default=0)
    for role in ("text", "text-pair", "label"):
        parser.add_argument(f"--{role}-column", help=f"the column of the {role}")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Args:
        arguments: What the parser read.

    Returns:
        The exit status.

    Raises:
        ValueError: If a file, a column or an argument is wrong.
    """
    console = Console()
    kind = KINDS[arguments.task]
    output: Path = arguments.output
    preset = output / "preset"
    if preset.exists():
        msg = f"{preset} is there already: the run is finished. Choose another output."
        raise ValueError(msg)
    if arguments.recipe is not None and arguments.preset is None:
        raise ValueError("A recipe is for pretrained weights: pass --preset as well.")
    train, dev = (
        kind.read(path, arguments) for path in (arguments.train, arguments.dev)
    )
    for data in (train, dev):
        console.print(data.description, highlight=False)
    settings = {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(arguments).items()
        if name not in ("run", "command", "output")
    }
    folder = TrainingFolder(output / "training")
    if folder.open(settings):
        console.print(f"going on after {len(folder.history())} epochs")
    keras.utils.set_random_seed(arguments.seed)
    task = folder.start(kind.task, lambda: build_task(kind, train, arguments))
    batch_size, epochs = _set_training(task, len(train), arguments)
    try:
        folder.fit(
            task,
            *kind.monitor,
            x=train.x,
            y=train.y,
            validation_data=dev.x if dev.y is None else (dev.x, dev.y),
            batch_size=batch_size,
            epochs=epochs,
        )
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from the last whole epoch")
        return 130
    history = folder.history()
    report = kind.report(task, dev)
    write_report(output, report, history, settings)
    plots = draw(output, report, history)
    card = model_card(arguments.task, kind.use, report, settings, task)
    with atomic_directory(preset) as finished:
        task.save_to_preset(finished)
        (finished / "README.md").write_text(card, encoding="utf-8")
    shutil.rmtree(folder.path)
    _show(console, report)
    console.print(f"model: {preset}\nreport: {output / 'report.json'}")
    for plot in plots or ("none: pip install matplotlib",):
        console.print(f"plot: {plot}")
    return 0


def _set_training(
    task: Any, num_examples: int, arguments: argparse.Namespace
) -> tuple[int, int]:
    """Compile the task, and choose the batch size and the epochs."""
    if arguments.recipe is None:
        if arguments.learning_rate:
            task.compile(learning_rate=arguments.learning_rate)
        return arguments.batch_size or 32, arguments.epochs or 3
    how = recipe(arguments.recipe)
    if arguments.learning_rate:
        how = replace(how, learning_rate=arguments.learning_rate)
    batch_size = arguments.batch_size or how.batch_size
    epochs = arguments.epochs or how.epochs(num_examples)
    task.compile(optimizer=how.optimizer(epochs * -(-num_examples // batch_size)))
    return batch_size, epochs


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
