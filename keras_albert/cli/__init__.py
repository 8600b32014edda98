"""The command line, `keras-albert COMMAND ...`.

Options and help import no backend: a command's module is imported when it runs.
"""

import os
import sys

from keras_albert.cli.loading import STOP_SIGNALS
from keras_albert.cli.run_command import run_command


def main() -> int:
    """Run the command line of this process, and return its exit status."""
    status = run_command()
    if status in [128 + number for number in STOP_SIGNALS]:
        # Cleanup is done, but threads of libraries would keep the process running.
        sys.stdout.flush()
        os._exit(status)
    return status
