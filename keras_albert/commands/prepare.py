"""`keras-albert prepare`: prepares texts for pretraining."""

import argparse
import logging
import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.table import Table

from keras_albert.commands.number_types import SEED, fraction, whole_number
from keras_albert.pretraining.data.metadata import PreparedMetadata
from keras_albert.pretraining.prepare.pipeline import PART_SIZE, prepare_examples
from keras_albert.pretraining.prepare.vocabulary import (
    NUM_LINES,
    stored_vocabulary,
    train_vocabulary_on,
)
from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer

_HELP = """Prepare texts for pretraining.

INPUT is a file or a glob, in any filesystem that Apache Beam supports: text, plain or
.gz, with a paragraph or a sentence per line and a blank line between documents; or JSON
lines (.jsonl, .jsonl.gz) with a document per line. If the command is interrupted,
repeating it completes the remaining parts.
"""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "prepare",
        help="prepare texts for pretraining",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="a file or a glob")
    parser.add_argument("--output", required=True, help="a directory")
    vocabulary = parser.add_mutually_exclusive_group(required=True)
    vocabulary.add_argument(
        "--vocabulary", help="a SentencePiece model, or the preset to continue from"
    )
    vocabulary.add_argument(
        "--vocabulary-size",
        type=whole_number(),
        help="train a vocabulary of this many pieces on the texts",
    )
    parser.add_argument(
        "--vocabulary-lines",
        type=whole_number(),
        default=NUM_LINES,
        help=f"the maximum number of lines to train it on; by default {NUM_LINES:,}",
    )
    parser.add_argument(
        "--sequence-length", type=whole_number(8), default=512, help="by default 512"
    )
    parser.add_argument(
        "--held-out",
        type=fraction,
        default=0.01,
        help="the fraction of the documents to evaluate on; by default 0.01",
    )
    parser.add_argument(
        "--short-seq-prob",
        type=fraction,
        default=0.1,
        help="the fraction of shortened rows; by default 0.1",
    )
    parser.add_argument("--seed", type=SEED, default=0)
    parser.add_argument(
        "--language", default="en", help="the language code; by default en"
    )
    parser.add_argument("--text-field", default="text", help="the field of JSON lines")
    parser.add_argument(
        "--part-size",
        type=whole_number(),
        default=PART_SIZE,
        help=f"size of a plain file's parts in bytes; by default {PART_SIZE:,}",
    )
    parser.add_argument(
        "--workers", type=whole_number(), default=1, help="processes on this machine"
    )
    parser.add_argument(
        "--beam",
        metavar="OPTIONS",
        help="Beam's options in one string, to run elsewhere: "
        "--beam='--runner=DataflowRunner --project=...'",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Args:
        arguments: The parsed arguments.

    Returns:
        The exit status.

    Raises:
        ImportError: If Beam is not installed.
        ValueError: If an argument is out of range, or an input does not exist.
    """
    console = Console()
    start = time.perf_counter()
    with _quiet():
        metadata = _prepare(arguments, console)
    _show(console, metadata)
    seconds = time.perf_counter() - start
    console.print(f"{arguments.output}: {seconds:,.0f} s", highlight=False)
    return 0


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the logs of Beam, which raises its errors as well."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    hook, threading.excepthook = threading.excepthook, lambda _: None
    try:
        yield
    finally:
        logging.disable(before)
        threading.excepthook = hook


def _prepare(arguments: argparse.Namespace, console: Console) -> PreparedMetadata:
    options = _pipeline_options(arguments)
    return prepare_examples(
        arguments.inputs,
        arguments.output,
        _vocabulary(arguments, console),
        sequence_length=arguments.sequence_length,
        held_out=arguments.held_out,
        short_seq_prob=arguments.short_seq_prob,
        seed=arguments.seed,
        language=arguments.language,
        text_field=arguments.text_field,
        part_size=arguments.part_size,
        pipeline_options=options,
    )


def _vocabulary(arguments: argparse.Namespace, console: Console) -> Any:
    """Return the given vocabulary or that of an earlier run, or train one."""
    if arguments.vocabulary is not None:
        return arguments.vocabulary
    stored = stored_vocabulary(arguments.output)
    size = AlbertTokenizer(stored).vocabulary_size() if stored is not None else None
    if size == arguments.vocabulary_size:
        console.print("The vocabulary of the earlier run is kept.")
        return stored
    return train_vocabulary_on(
        arguments.inputs,
        arguments.vocabulary_size,
        num_lines=arguments.vocabulary_lines,
        text_field=arguments.text_field,
        output=arguments.output,
    )


def _pipeline_options(arguments: argparse.Namespace) -> Any:
    if arguments.beam is not None:
        from apache_beam.options.pipeline_options import (  # noqa: PLC0415
            PipelineOptions,
        )

        return PipelineOptions(shlex.split(arguments.beam))
    if arguments.workers == 1:
        return None
    return {
        "direct_num_workers": arguments.workers,
        "direct_running_mode": "multi_processing",
    }


def _show(console: Console, metadata: PreparedMetadata) -> None:
    table = Table("counted", "number")
    table.columns[1].justify = "right"
    for name, count in metadata.counters.items():
        table.add_row(name, f"{count:,}")
    console.print(table)
