"""`keras-albert convert`: converts checkpoints to other libraries' formats."""

import argparse

from rich.table import Table

from keras_albert.commands.report import plain_console
from keras_albert.conversion.convert import convert_checkpoint


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    done = convert_checkpoint(
        arguments.source,
        arguments.target,
        arguments.to,
        task=arguments.task,
        with_vocabulary=not arguments.without_vocabulary,
    )
    console = plain_console()
    table = Table("weight", "source", "target", "shape", title=done.model)
    for path, source, target, shape in done.weights:
        table.add_row(path, source, target or "(left out)", "x".join(map(str, shape)))
    console.print(table)
    for reader, difference in done.differences.items():
        console.print(f"{reader}: largest difference {difference:.2e}", highlight=False)
    console.print(f"{arguments.target}: {arguments.to}", highlight=False)
