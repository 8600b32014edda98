"""Runs a program with one-line errors and an orderly end after signals."""

import errno
import math
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType

# Raised by the package and its libraries for faults of a file, an argument or the
# machine. Anything else is a bug in the program.
_EXPECTED: tuple[type[Exception], ...] = (
    *(ArithmeticError, ImportError, MemoryError, OSError),
    *(RuntimeError, TypeError, ValueError),
)
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_NO_ROOM = tuple(map(os.strerror, _FULL))
_MAX_LINE = 1500
# Another SIGTERM within this time does not interrupt the cleanup after the first.
_CLEANUP_SECONDS = 5.0
_SECONDS_UNTIL_REPEATED = 0.05


def run_program(
    name: str,
    run: Callable[[], int | None],
    options: Mapping[str, str] | None = None,
    debug: bool = False,
) -> int:
    """Run a program, report errors in one line, and return an exit status."""
    # Ctrl-C and SIGTERM raise `KeyboardInterrupt`, so that everything is cleaned up;
    # the notes of the exception are printed. `options` are the options by the names of
    # arguments, as errors carry them.
    try:
        with _interruptible():
            try:
                return run() or 0
            finally:
                # Otherwise, Python writes it when it ends, and prints a traceback of an
                # error. `None` if the caller closed it.
                if sys.stdout is not None:
                    sys.stdout.flush()
    except KeyboardInterrupt as stop:
        line = "; ".join(["stopped", *getattr(stop, "__notes__", ())])
        # Python's own handler of SIGINT passes no number.
        status = 128 + next(iter(stop.args), signal.SIGINT)
    except BrokenPipeError:
        # The reader of the output has ended, as `head` does.
        _drop_output()
        return 128 + signal.SIGPIPE
    except Exception as error:
        if debug:
            traceback.print_exc()
        line, status = describe_error(error, options or {}), 1
        if isinstance(error, OSError) and error.errno in _FULL:
            _drop_output()
    print(f"{name}: {line}", file=sys.stderr, flush=True)
    return status


def describe_error(error: Exception, options: Mapping[str, str]) -> str:
    """Describe an error in one line, which starts with the option that is wrong."""
    # Libraries of file formats raise other errors for it, with other words.
    for reason in _NO_ROOM:
        if reason in str(error) and f"{reason}: nothing was written" not in str(error):
            return f"{reason}. Free some space, or write elsewhere"
    line = " ".join(str(error).split())
    if len(line) > _MAX_LINE:
        half = _MAX_LINE // 2
        line = f"{line[:half]} [...] {line[-half:]}"
    if not isinstance(error, _EXPECTED):
        what = ": ".join(filter(None, (type(error).__name__, line)))
        return f"unexpected {what}. --debug shows where; please report it"
    option = options.get(getattr(error, "argument", ""))
    return f"{option}: {line}" if option else line or type(error).__name__


def _drop_output() -> None:
    """Drop what is not yet written: Python would try again when it ends."""
    with suppress(AttributeError, OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _interruptible() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, and send a signal again whose exception was lost."""
    # Python discards exceptions in callbacks of the garbage collector and in `__del__`.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heeded = -math.inf
    timers: list[threading.Timer] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        nonlocal heeded
        if time.monotonic() - heeded >= _CLEANUP_SECONDS:
            heeded = time.monotonic()
            raise KeyboardInterrupt(number)

    def send_again(lost: "sys.UnraisableHookArgs") -> None:
        nonlocal heeded
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            shown(lost)
            return
        heeded = -math.inf
        number = next(iter(lost.exc_value.args), signal.SIGINT)
        timer = threading.Timer(_SECONDS_UNTIL_REPEATED, os.kill, (os.getpid(), number))
        timers.append(timer)
        timer.start()

    before = signal.signal(signal.SIGTERM, interrupt)
    shown, sys.unraisablehook = sys.unraisablehook, send_again
    try:
        yield
    finally:
        sys.unraisablehook = shown
        for timer in timers:
            timer.cancel()
        # `None` means a handler that was not installed from Python.
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)
