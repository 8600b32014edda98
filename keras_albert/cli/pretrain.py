"""`keras-albert prepare` and `pretrain`: from texts to a pretrained model."""

import json
import shlex
import time
from collections.abc import Callable
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

from keras_albert.cli.commands import Prepare, Pretrain
from keras_albert.cli.console import RESUME, plain_console
from keras_albert.cli.loading import hidden_messages
from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.pretraining.config import PretrainingConfig
from keras_albert.pretraining.prepare import pipeline
from keras_albert.pretraining.prepare.documents import beam_output
from keras_albert.pretraining.prepared_files import PreparedMetadata
from keras_albert.pretraining.train import pretrain
from keras_albert.utils.reading import read_json
from keras_albert.utils.remote import fetch


def prepare(options: Prepare) -> None:
    """Run `keras-albert prepare`."""
    console = plain_console()
    start = time.perf_counter()
    with hidden_messages() as shown, open(shown, "w", closefd=False) as stderr:
        bar = progress_bar(Console(file=stderr), options.quiet)
        with bar, beam_output(options.output) as output:
            metadata = _prepare(options, output, bar)
    table = Table("counted", "number")
    table.columns[1].justify = "right"
    for name, count in metadata.counters.items():
        table.add_row(name, f"{count:,}")
    console.print(table)
    for path in metadata.broken_files:
        console.print(f"damaged, read up to the damage: {path}", soft_wrap=True)
    seconds = time.perf_counter() - start
    console.print(f"{options.output}: {seconds:,.0f} s", highlight=False)


def progress_bar(console: Console, quiet: bool) -> Progress:
    """Return a progress bar of bytes, which a terminal shows and a file does not."""
    # Printed text would go to the bar's console, and hidden messages as well.
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


def _prepare(options: Prepare, output: str, bar: Progress) -> PreparedMetadata:
    pipeline_options: Any = None
    if options.beam is not None:
        from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415

        pipeline_options = PipelineOptions(shlex.split(options.beam))
    elif options.workers > 1:
        pipeline_options = {"direct_num_workers": options.workers}
        pipeline_options["direct_running_mode"] = "multi_processing"
    vocabulary = _vocabulary(options, output, bar, pipeline_options)
    return pipeline.prepare_examples(
        options.inputs,
        output,
        vocabulary,
        **{name: getattr(options, name) for name in _EXAMPLES},
        pipeline_options=pipeline_options,
        progress=_shown_in(bar, "examples"),
    )


def _shown_in(bar: Progress, what: str) -> Callable[[int, int], None]:
    task = bar.add_task(what, total=None, visible=False)

    def show(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total, visible=True)

    return show


def _vocabulary(
    options: Prepare, output: str, bar: Progress, pipeline_options: Any
) -> Any:
    """Return the given vocabulary or the one of an earlier run, or train one."""
    if options.vocabulary_size is None:
        return options.vocabulary
    stored = pipeline.stored_vocabulary(output)
    size = AlbertTokenizer(stored).vocabulary_size() if stored is not None else None
    if size == options.vocabulary_size:
        plain_console().print("The vocabulary of the earlier run is kept.")
        return stored
    return pipeline.train_vocabulary_on(
        options.inputs,
        options.vocabulary_size,
        num_lines=options.vocabulary_lines,
        text_field=options.text_field,
        output=output,
        progress=_shown_in(bar, "vocabulary"),
        pipeline_options=pipeline_options,
        part_size=options.part_size,
    )


def run(options: Pretrain) -> None:
    """Run `keras-albert pretrain`."""
    console = plain_console()
    given = dict(options.settings)
    if "backbone" in given:
        given["backbone"] = _read_pairs(given["backbone"])
    config = PretrainingConfig.from_file(options.config, **given)
    is_quiet = options.quiet or not console.is_terminal
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
        name, _, value = pair.partition("=")
        try:
            read[name] = json.loads(value)
        except ValueError:
            read[name] = value
    return read
