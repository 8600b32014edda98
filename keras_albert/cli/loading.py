"""Imports libraries without their log messages, and with one line after Ctrl-C."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)

# Environment variables of a process that is one of several.
_OF_SEVERAL = ("WORLD_SIZE", "KERAS_DISTRIBUTION_NUM_PROCESSES", "TF_CONFIG")

# TensorFlow reads it when it is loaded, and processes inherit it. 0 shows all messages.
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def set_verbose(is_verbose: bool) -> None:
    """Choose whether libraries show log messages, in this process and its children."""
    # Variables that the environment has already are kept, unless `is_verbose`.
    if is_verbose:
        os.environ[_LOG_LEVEL] = "0"
        os.environ["GRPC_VERBOSITY"] = "INFO"
        return
    # Errors are raised in Python as well.
    os.environ.setdefault(_LOG_LEVEL, "3")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")


@contextmanager
def hidden_messages() -> Iterator[int]:
    """Hide what is written to stderr in a block, also by C++ and by child processes."""
    # TensorFlow writes messages while it is loaded that no setting prevents. Logs and
    # tracebacks of threads are hidden, too; nothing after `set_verbose(True)`.
    if sys.stderr is None:
        # It was closed by the caller of the program.
        yield 2
        return
    sys.stderr.flush()
    shown = os.dup(2)
    level, hook = logging.root.manager.disable, threading.excepthook
    try:
        if os.environ.get(_LOG_LEVEL) != "0":
            logging.disable(logging.ERROR)
            threading.excepthook = lambda _: None
            with open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), 2)
        yield shown
    finally:
        sys.stderr.flush()
        os.dup2(shown, 2)
        os.close(shown)
        threading.excepthook = hook
        logging.disable(level)


@contextmanager
def loading(name: str) -> Iterator[None]:
    """Hide the messages of libraries that a block imports, and end it in one line."""
    # Ctrl-C and SIGTERM end the process with `NAME: stopped`.

    def stop(number: int, _frame: FrameType | None) -> None:
        # No work has started, so no cleanup is needed.
        os.write(shown, f"{name}: stopped\n".encode())
        os._exit(128 + number)

    set_verbose(False)
    before = {}
    # Python has signals in the main thread only.
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    with hidden_messages() as shown:
        for number, handler in before.items():
            # A shell's background processes ignore Ctrl-C; that is kept.
            if handler != signal.SIG_IGN:
                signal.signal(number, stop)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def signals_held_back() -> Iterator[None]:
    """Delay signals to one of several processes, until training records them."""
    # The others would wait for one that ends before they are connected. Threads inherit
    # the mask, so that no signal comes to them.
    is_one_of_several = any(name in os.environ for name in _OF_SEVERAL)
    if not is_one_of_several or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def import_without_tensorflow() -> None:
    """Import KerasHub as if TensorFlow, half a gigabyte, were not installed."""
    if "tensorflow" in sys.modules:
        return
    keras = import_module("keras")
    # `import` raises an error for it.
    sys.modules["tensorflow"] = None  # type: ignore[assignment]
    try:
        import_module("keras_hub")
        # Keras looks for it here once, to set its seed as well.
        keras.utils.set_random_seed(0)
    finally:
        del sys.modules["tensorflow"]
