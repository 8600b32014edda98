"""The program `keras-albert`, which Ctrl-C and SIGTERM end in one line from the start.

Beside the package, whose import takes seconds: within it, whatever is done about
signals would come after.
"""

import os
import signal
import sys
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Load the package, and run its command line.

    Returns:
        The exit status.
    """
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    for number, handler in before.items():
        # What a shell runs in the background does not hear Ctrl-C, and need not.
        if handler != signal.SIG_IGN:
            signal.signal(number, _stop)
    from keras_albert.cli import main as run  # noqa: PLC0415  (takes seconds)

    for number, handler in before.items():
        signal.signal(number, handler)
    status = run()
    if status in [128 + number for number in _NUMBERS]:
        # All is cleaned up; threads of libraries would go on with their work.
        sys.stdout.flush()
        os._exit(status)
    return status


def _stop(number: int, _frame: FrameType | None) -> None:
    # Nothing has been begun.
    os.write(2, b"keras-albert: stopped\n")
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
