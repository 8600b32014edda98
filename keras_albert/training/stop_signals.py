"""Handling of SIGINT (Ctrl-C) and SIGTERM (preemption)."""

import signal
import threading
from types import FrameType
from typing import Any, Self


class StopSignals:
    """Records SIGINT and SIGTERM in a block, so that it can end at a suitable point.

    The second SIGINT interrupts at once. Outside the main thread, where Python has
    no signals, nothing is recorded.

    Attributes:
        number: int or `None`. The signal that was received, the last of several.

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
        """Whether a signal was received."""
        return self.number is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            # `None` means a handler that was not installed from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number
