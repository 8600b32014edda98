"""The command line, `keras-albert COMMAND ...`.

It is a separate package because importing `keras_albert` takes seconds, and cannot be
put off: Keras loads a file only if the classes in it are registered. Options and help
are here, and import no backend; `keras_albert.commands` does the work, and is imported
when a command runs.
"""

import os
import sys

from keras_albert_cli.loading import STOP_SIGNALS
from keras_albert_cli.run_command import run_command


def main() -> int:
    """Run the command line of this process, and return its exit status."""
    status = run_command()
    if status in [128 + number for number in STOP_SIGNALS]:
        # Cleanup is done, but threads of libraries would keep the process running.
        sys.stdout.flush()
        os._exit(status)
    return status
