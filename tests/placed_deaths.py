"""Dying between any two operations on files, without a process for each."""

import sys
from contextlib import contextmanager


class Died(BaseException):
    """What nothing catches; and nothing that cleans up reaches the disk any more."""


class _Operations:
    """How many were asked for, and how many are left until death; `None` for ever."""

    count = 0
    left: int | None = None

    def hook(self, event, arguments):
        if self.left is None or not event.startswith(("open", "os.", "shutil.")):
            return
        self.count += 1
        if self.left == 0:
            raise Died
        self.left -= 1

    @contextmanager
    def limited(self, number):
        self.left, self.count = number, 0
        try:
            yield
        except Died:
            pass
        finally:
            self.left = None


_OPERATIONS = _Operations()
sys.addaudithook(_OPERATIONS.hook)


def died_everywhere(prepare, write):
    """Write again and again, to die one operation later each time.

    Yields what `prepare` made, once for each death and at last for a write that came
    through.
    """
    operations = 0
    while True:
        prepared = prepare(operations)
        finished = False
        with _OPERATIONS.limited(operations):
            write(prepared)
            finished = True
        yield prepared
        if finished and _OPERATIONS.count <= operations:
            return
        operations += 1
