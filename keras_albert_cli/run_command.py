"""Parses the command line, and runs the command."""

import argparse
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from keras_albert_cli.loading import loading, set_verbose
from keras_albert_cli.options import COMMANDS, build_parser
from keras_albert_cli.run_program import run_program


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: Sequence of string. Defaults to `None`, the process's arguments.

    Returns:
        The exit status: 0; 1 after an error, which is printed to stderr; 130 after
        Ctrl-C and 143 after SIGTERM. Invalid options end the process with 2.
    """
    parser, subparsers = build_parser()
    parsed = argparse.Namespace()

    def parse() -> None:
        # Help and versions are printed here, perhaps for `head`.
        parser.parse_args(arguments, parsed)

    if status := run_program("keras-albert", parse):
        return status
    chosen = vars(parsed)
    # Commands record their arguments as settings of the run; these are none of them.
    command, debug, verbose = (chosen.pop(k) for k in ("command", "debug", "verbose"))
    set_verbose(verbose)
    with loading("keras-albert"):
        run = _import_run(command)
    options = re.findall(r"--[\w-]+", subparsers[command].format_usage())
    given = argparse.Namespace(**chosen)
    return run_program(f"keras-albert {command}", lambda: run(given), options, debug)


def _import_run(command: str) -> Any:
    return import_module(f"keras_albert.commands.{COMMANDS[command].module}").run
