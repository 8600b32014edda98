"""Parses the command line, and runs the command."""

import argparse
import re
from collections.abc import Sequence
from functools import partial
from importlib import import_module

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
        module = import_module(f"keras_albert.commands.{COMMANDS[command].module}")
    options = re.findall(r"--[\w-]+", subparsers[command].format_usage())
    run = partial(module.run, argparse.Namespace(**chosen))
    return run_program(f"keras-albert {command}", run, options, debug)
