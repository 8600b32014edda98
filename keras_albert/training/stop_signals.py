"""Ctrl-C, and the signal that says a machine is wanted back."""

import signal
import threading
from types import FrameType
from typing import Any, Self


class StopSignals:
    """Notes SIGINT and SIGTERM in a block, so that it can end when it suits.

    The second SIGINT interrupts at once. Outside the main thread, where Python has
    no signals, nothing is noted.

    Attributes:
        number: int or `None`. The signal that has come, the last of several.

    Example:
        >>> import signal
        >>> from keras_albert.training.stop_signals import StopSignals
        >>> with StopSignals() as stop:
        ...     signal.raise_signal(signal.SIGTERM)
        ...     stop.requested
        True
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether one has come."""
        return self.number is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            # `None` is a handler that was not set from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number
