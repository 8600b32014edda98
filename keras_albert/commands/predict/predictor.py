"""The interface of the models that `predict` runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_albert.commands.predict.output_lines import Answer

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Predictor:
    """A model that predicts for rows of texts."""

    inputs: Sequence[tuple[str, ...]]
    predict: Callable[[Columns], list[Answer]]
    close: Callable[[], None] = lambda: None


def text_predictor(
    inputs: Sequence[tuple[str, ...]],
    run: Callable[[Columns], dict[str, Any]],
    batch_size: int,
    close: Callable[[], None] = lambda: None,
) -> Predictor:
    """Return the predictor of an export that takes texts."""

    def run_batch(columns: Columns) -> list[Answer]:
        if "choices" in columns:
            columns = columns | {"choices": fill_up(columns["choices"])}
        return rows_of_outputs(run(columns))

    return Predictor(
        inputs, lambda columns: by_length(columns, batch_size, run_batch), close
    )


def by_length(
    columns: Columns, batch_size: int, run: Callable[[Columns], list[Answer]]
) -> list[Answer]:
    """Run batches of texts of similar length, which need little padding."""
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
    """Split the outputs of a batch into rows."""
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
    """Pad the choices of each row with "" to equal numbers."""
    most = max(map(len, choices), default=0)
    return [row + [""] * (most - len(row)) for row in choices]
