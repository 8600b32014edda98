"""A process that is killed between any two operations on files."""

import os
import signal
import sys
import warnings


def _die_after(operations):
    """Kill this process by SIGKILL before another operation."""
    left = operations

    def count(event, _):
        nonlocal left
        if event.startswith(("open", "os.", "shutil.")):
            left -= 1
            if left < 0:
                signal.raise_signal(signal.SIGKILL)

    sys.addaudithook(count)


def killed_everywhere(prepare, write):
    """Write again and again, killed one operation later each time.

    Yields what `prepare` made, once for each death and at last for a write that came
    through.
    """
    status, operations = None, 0
    while status != 0:
        prepared = prepare(operations)
        with warnings.catch_warnings():
            # JAX has threads, which are not needed to write files.
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            try:
                _die_after(operations)
                write(prepared)
            except BaseException:
                os._exit(1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        assert status in (0, signal.SIGKILL), status
        yield prepared
        operations += 1
