"""Entry point of `keras-albert`, which exits with one line on Ctrl-C and SIGTERM.

It is a separate package: importing `keras_albert` takes seconds, and signal handlers
that it installs itself would come too late.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Import the package and run its command line.

    Returns:
        The exit status.
    """
    with stopped_in_one_line("keras-albert"):
        from keras_albert.cli import main as run  # noqa: PLC0415  (takes seconds)
    status = run()
    if status in [128 + number for number in _NUMBERS]:
        # Cleanup is done, but threads of libraries would keep the process running.
        sys.stdout.flush()
        os._exit(status)
    return status


@contextmanager
def stopped_in_one_line(name: str) -> Iterator[None]:
    """End the process with one line at Ctrl-C or SIGTERM while a program loads.

    Args:
        name: string. Name of the program, which starts the line.
    """

    def stop(number: int, _frame: FrameType | None) -> None:
        # No work has started, so no cleanup is needed.
        os.write(2, f"{name}: stopped\n".encode())
        os._exit(128 + number)

    before = {number: signal.getsignal(number) for number in _NUMBERS}
    for number, handler in before.items():
        # A shell's background processes ignore Ctrl-C; that is kept.
        if handler != signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
