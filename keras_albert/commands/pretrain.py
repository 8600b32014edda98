"""`keras-albert prepare` and `pretrain`: from texts to a pretrained model."""

import argparse
import json
import shlex
import time
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from keras_albert.commands.report import RESUME, plain_console
from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.pretraining.config import PretrainingConfig
from keras_albert.pretraining.prepare import pipeline
from keras_albert.pretraining.prepare.documents import beam_output
from keras_albert.pretraining.prepared_files import PreparedMetadata
from keras_albert.pretraining.pretrain import pretrain
from keras_albert.utils.reading import read_json
from keras_albert.utils.remote import fetch
from keras_albert_cli.loading import hidden_messages


def run_prepare(arguments: argparse.Namespace) -> None:
    """Run the command."""
    console = plain_console()
    start = time.perf_counter()
    with hidden_messages() as shown, open(shown, "w", closefd=False) as stderr:
        bar = progress_bar(Console(file=stderr), arguments.quiet)
        with bar, beam_output(arguments.output) as output:
            metadata = _prepare(arguments, output, bar)
    table = Table("counted", "number")
    table.columns[1].justify = "right"
    for name, count in metadata.counters.items():
        table.add_row(name, f"{count:,}")
    console.print(table)
    for path in metadata.broken_files:
        console.print(f"damaged, read up to the damage: {path}", soft_wrap=True)
    seconds = time.perf_counter() - start
    console.print(f"{arguments.output}: {seconds:,.0f} s", highlight=False)


def progress_bar(console: Console, quiet: bool) -> Progress:
    """Return a progress bar of bytes, which a terminal shows and a file does not."""
    # What is printed would go to the bar's console, and hidden messages, too.
    redirected = {"redirect_stdout": False, "redirect_stderr": False}
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
        **redirected,
    )


# Options of `prepare_examples`.
_EXAMPLES = (
    *("sequence_length", "held_out", "short_seq_prob", "seed", "language"),
    *("text_field", "part_size", "max_broken"),
)


def _prepare(
    arguments: argparse.Namespace, output: str, bar: Progress
) -> PreparedMetadata:
    options: Any = None
    if arguments.beam is not None:
        from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415

        options = PipelineOptions(shlex.split(arguments.beam))
    elif arguments.workers > 1:
        options = {"direct_num_workers": arguments.workers}
        options["direct_running_mode"] = "multi_processing"
    vocabulary = _vocabulary(arguments, output, bar, options)
    return pipeline.prepare_examples(
        arguments.inputs,
        output,
        vocabulary,
        **{name: getattr(arguments, name) for name in _EXAMPLES},
        pipeline_options=options,
        progress=_shown_in(bar, "examples"),
    )


def _shown_in(bar: Progress, what: str) -> Callable[[int, int], None]:
    task = bar.add_task(what, total=None, visible=False)

    def show(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total, visible=True)

    return show


def _vocabulary(
    arguments: argparse.Namespace, output: str, bar: Progress, options: Any
) -> Any:
    """Return the given vocabulary or the one of an earlier run, or train one."""
    if arguments.vocabulary is not None:
        return arguments.vocabulary
    stored = pipeline.stored_vocabulary(output)
    size = AlbertTokenizer(stored).vocabulary_size() if stored is not None else None
    if size == arguments.vocabulary_size:
        plain_console().print("The vocabulary of the earlier run is kept.")
        return stored
    return pipeline.train_vocabulary_on(
        arguments.inputs,
        arguments.vocabulary_size,
        num_lines=arguments.vocabulary_lines,
        text_field=arguments.text_field,
        output=output,
        progress=_shown_in(bar, "vocabulary"),
        pipeline_options=options,
        part_size=arguments.part_size,
    )


def run_pretrain(arguments: argparse.Namespace) -> None:
    """Run the command."""
    console = plain_console()
    known = {each.name for each in fields(PretrainingConfig)}
    given = {name: value for name, value in vars(arguments).items() if name in known}
    if "backbone" in given:
        given["backbone"] = _read_pairs(given["backbone"])
    config = PretrainingConfig.from_file(arguments.config, **given)
    is_quiet = arguments.quiet or not console.is_terminal
    try:
        scores = pretrain(config, verbose=2 if is_quiet else 1)
    except KeyboardInterrupt as stop:
        stop.add_note(RESUME)
        raise
    output = config.output.rstrip("/")
    path = f"{output}/report.json"
    baselines = read_json(fetch(path))["baselines"]
    table = Table("metric", "held out", "baseline")
    for name, value in scores.items():
        baseline = f"{baselines[name]:.4f}" if name in baselines else ""
        table.add_row(name, f"{value:.4f}", baseline)
    console.print(table)
    console.print(f"model: {output}/preset\nreport: {path}", soft_wrap=True)


def _read_pairs(pairs: list[str]) -> dict[str, Any]:
    """Read pairs `NAME=VALUE`; a value is JSON or a plain word."""
    read = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"`--backbone` takes NAME=VALUE. Received: {pair!r}")
        try:
            read[name] = json.loads(value)
        except ValueError:
            read[name] = value
    return read
