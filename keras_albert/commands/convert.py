"""`keras-albert convert`: converts checkpoints to other libraries' formats."""

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from keras_albert.conversion.convert import OWN_FORMAT, convert_checkpoint

_HELP = """Convert a checkpoint and verify the result.

The new files are loaded again, by this package and, if it is installed, by the other
library, and each model computes a small batch. If the outputs differ, nothing is
written.
"""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "convert",
        help="convert a checkpoint to another library's format",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", help="a built-in name, a directory or a handle")
    parser.add_argument("target", type=Path, help="a new directory")
    parser.add_argument(
        "--to",
        required=True,
        choices=(OWN_FORMAT, "transformers", "keras-hub", "google"),
        help="the format to write",
    )
    parser.add_argument(
        "--task",
        metavar="NAME",
        help="the class to load it as, for instance AlbertClassifier or "
        "AlbertBackbone; by default the task that the checkpoint has a head for",
    )
    parser.add_argument(
        "--without-vocabulary", action="store_true", help="convert only the weights"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Args:
        arguments: The parsed arguments.

    Returns:
        The exit status.

    Raises:
        ValueError: If the source cannot be read, the target format cannot represent
            it, or the outputs differ.
    """
    done = convert_checkpoint(
        arguments.source,
        arguments.target,
        arguments.to,
        task=arguments.task,
        with_vocabulary=not arguments.without_vocabulary,
    )
    console = Console()
    table = Table("weight", "source", "target", "shape", title=done.model)
    for path, source, target, shape in done.weights:
        table.add_row(path, source, target or "(left out)", "x".join(map(str, shape)))
    console.print(table)
    for reader, difference in done.differences.items():
        console.print(f"{reader}: largest difference {difference:.2e}", highlight=False)
    console.print(f"{arguments.target}: {arguments.to}", highlight=False)
    return 0
