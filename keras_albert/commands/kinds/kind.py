"""What `finetune` has to know of a task."""

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_albert.commands.run_report import Report


@dataclass(frozen=True)
class Data:
    """A file as a task takes it.

    Args:
        x: The examples, as `fit` takes them.
        y: Their targets, or `None`.
        texts: Callable that gives all texts, to learn a vocabulary from.
        description: string. What was read from where.
        head: dict. What the task's constructor must know of the targets.
    """

    x: Any
    y: Any
    texts: Callable[[], Iterable[str]]
    description: str
    head: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.x[0] if isinstance(self.x, tuple) else self.x)


@dataclass(frozen=True)
class Kind:
    """A task.

    Args:
        task: Its class.
        read: Callable of a path and the command's arguments.
        report: Callable of the trained task and the dev data.
        monitor: The metric that says which epoch is best, and `"max"` or `"min"`.
        files: string. What its files look like, for the help.
        use: string. A line of Python that uses `model`, for the model card.
    """

    task: Any
    read: Callable[[Path, argparse.Namespace], Data]
    report: Callable[[Any, Data], Report]
    monitor: tuple[str, str]
    files: str
    use: str
