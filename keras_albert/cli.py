"""The command line: `keras-albert COMMAND ...`."""

import argparse
import sys
from collections.abc import Sequence

from keras_albert.commands import (
    convert,
    export,
    finetune,
    predict,
    prepare,
    pretrain,
    verify,
)

_COMMANDS = (convert, export, finetune, predict, prepare, pretrain, verify)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: Sequence of string. Defaults to `None`: those of the process.

    Returns:
        The exit status: 0, or 1 after an error, which stands on stderr.
    """
    parser = argparse.ArgumentParser(
        prog="keras-albert", description="ALBERT on Keras 3."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for command in _COMMANDS:
        command.add_parser(commands)
    chosen = parser.parse_args(arguments)
    try:
        status: int = chosen.run(chosen)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        print(f"keras-albert {chosen.command}: {error}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
