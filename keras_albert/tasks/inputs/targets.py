"""Targets that have been read, and what a task learns from them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class EncodedTargets:
    """Targets that were encoded and checked, so that they are not read again."""

    values: Any


@contextmanager
def unchanged_on_error(task: Any) -> Iterator[None]:
    """Restore what a task has learned from targets if the block raises.

    A wrong text or a validation set that does not fit would otherwise leave names
    behind, with their typing errors.
    """
    kept = {name: getattr(task, name) for name in task.set_by_targets}
    try:
        yield
    except BaseException:
        for name, value in kept.items():
            setattr(task, name, value)
        raise
