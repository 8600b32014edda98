"""The description of a task for `finetune`."""

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keras_albert.commands.finetune.report import Report


@dataclass(frozen=True)
class Data:
    """The contents of a file, as inputs of a task.

    Args:
        x: The examples, as `fit` takes them.
        y: Their targets, or `None`.
        texts: Callable that returns all texts, to train a vocabulary on.
        description: string. The file and the columns that were read.
        head: dict. Arguments of the task's constructor that follow from the targets.
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
    """A kind of task.

    Args:
        task: The class of the task.
        read: Callable of a path and the command's arguments.
        report: Callable of the trained task and the dev data.
        monitor: The metric that determines the best epoch, and `"max"` or `"min"`.
        use: string. A line of Python that uses `model`, for the model card.
    """

    task: Any
    read: Callable[[Path, argparse.Namespace], Data]
    report: Callable[[Any, Data], Report]
    monitor: tuple[str, str]
    use: str
