"""The command line: `keras-albert COMMAND ...`."""

import argparse
import re
import sys
from collections.abc import Sequence

from keras_albert.commands import (
    convert,
    export,
    prepare,
    pretrain,
    verify,
)
from keras_albert.commands.finetune import command as finetune
from keras_albert.commands.predict import command as predict
from keras_albert.commands.run_program import run_program

_COMMANDS = (convert, export, finetune, predict, prepare, pretrain, verify)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: Sequence of string. Defaults to `None`, the process's arguments.

    Returns:
        The exit status: 0; 1 after an error, which is printed to stderr; 130 after
        Ctrl-C and 143 after SIGTERM. Invalid options end the process with 2.
    """
    parser = argparse.ArgumentParser(
        prog="keras-albert", description="ALBERT on Keras 3."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    for subparser in commands.choices.values():
        subparser.add_argument(
            "--debug", action="store_true", help="show the traceback of errors"
        )
    chosen = parser.parse_args(arguments)
    # Commands record their arguments as settings of the run; this is not one of them.
    debug = vars(chosen).pop("debug")
    options = re.findall(r"--[\w-]+", commands.choices[chosen.command].format_usage())
    name = f"keras-albert {chosen.command}"
    return run_program(name, lambda: chosen.run(chosen), options, debug)


if __name__ == "__main__":
    sys.exit(main())
