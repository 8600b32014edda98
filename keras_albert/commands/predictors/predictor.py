"""What `predict` wants of a model, whatever runs it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from keras_albert.commands.answer_lines import Answer

Columns = dict[str, list[Any]]


class Predictor:
    """A model that answers rows of texts.

    Attributes:
        inputs: Which columns it can read, the most first: tuples of `"text"`,
            `"text_pair"`, `"context"`, `"question"` and `"choices"`.
    """

    inputs: Sequence[tuple[str, ...]] = ()

    def predict(self, columns: Columns) -> list[Answer]:
        """Answer some rows.

        Args:
            columns: A list for each name of one of `inputs`.

        Returns:
            An answer for each row.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let go of what it holds."""


def by_length(
    columns: Columns, batch_size: int, run: Callable[[Columns], list[Answer]]
) -> list[Answer]:
    """Run batches of texts of like length, which need little padding.

    Args:
        columns: Lists of one length.
        batch_size: int. The most rows of a batch.
        run: Callable that answers a batch.

    Returns:
        The answers in the order of the rows.

    Example:
        >>> columns = {"text": ["long text", "a", "bc"]}
        >>> by_length(columns, 2, lambda batch: [{"of": t} for t in batch["text"]])
        [{'of': 'long text'}, {'of': 'a'}, {'of': 'bc'}]
    """
    rows = list(zip(*columns.values(), strict=True))
    order = np.argsort([sum(map(_length, row)) for row in rows], kind="stable")
    answers: list[Answer] = [{} for _ in rows]
    for first in range(0, len(rows), batch_size):
        batch = order[first : first + batch_size]
        part = {
            name: [column[row] for row in batch] for name, column in columns.items()
        }
        for row, answer in zip(batch, run(part), strict=True):
            answers[row] = answer
    return answers


def _length(text: Any) -> int:
    return len(text) if isinstance(text, str) else max(map(len, text), default=0)


def rows_of_outputs(outputs: dict[str, Any]) -> list[Answer]:
    """Cut a batch's outputs into rows.

    Args:
        outputs: Arrays by name, each with the batch as its first axis. Where there is a
            `count`, those of more axes are filled up, and are cut to it.

    Returns:
        A dict for each row.

    Example:
        >>> outputs = {"label": np.array([["a", ""], ["b", "c"]]), "count": [1, 2]}
        >>> [row["label"].tolist() for row in rows_of_outputs(outputs)]
        [['a'], ['b', 'c']]
    """
    counts = outputs.get("count")
    size = len(next(iter(outputs.values())))
    rows: list[Answer] = []
    for row in range(size):
        answer = {name: array[row] for name, array in outputs.items()}
        if counts is not None:
            for name, value in answer.items():
                if np.ndim(value):
                    answer[name] = value[: int(counts[row])]
        rows.append(answer)
    return rows


def fill_up(choices: list[list[str]]) -> list[list[str]]:
    """Give each row as many choices, "" for those that it lacks.

    Example:
        >>> fill_up([["yes"], ["a", "b"]])
        [['yes', ''], ['a', 'b']]
    """
    most = max(map(len, choices), default=0)
    return [row + [""] * (most - len(row)) for row in choices]
