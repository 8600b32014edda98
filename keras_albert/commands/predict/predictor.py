"""The interface of the models that `predict` runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_albert.commands.predict.output_lines import Answer

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class Predictor:
    """A model that predicts for rows of texts.

    Args:
        inputs: The sets of columns that it can read, best first: tuples of `"text"`,
            `"text_pair"`, `"context"`, `"question"` and `"choices"`.
        predict: Callable from a list for each name in one of `inputs` to a prediction
            for each row.
        close: Callable that releases resources. Defaults to a function that does
            nothing.
    """

    inputs: Sequence[tuple[str, ...]]
    predict: Callable[[Columns], list[Answer]]
    close: Callable[[], None] = lambda: None


def text_predictor(
    inputs: Sequence[tuple[str, ...]],
    run: Callable[[Columns], dict[str, Any]],
    batch_size: int,
    close: Callable[[], None] = lambda: None,
) -> Predictor:
    """Return the predictor of an export that takes texts.

    Args:
        inputs: As in `Predictor`.
        run: Callable from the texts of a batch to outputs, arrays by name.
        batch_size: int. The maximum number of rows in a batch.
        close: As in `Predictor`.
    """

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
    """Run batches of texts of similar length, which need little padding.

    Args:
        columns: Lists of equal length.
        batch_size: int. The maximum number of rows in a batch.
        run: Callable that predicts for a batch.

    Returns:
        The predictions in the order of the rows.

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
    """Split the outputs of a batch into rows.

    Args:
        outputs: Arrays by name, each with the batch as its first axis. If there is a
            `count`, arrays with more axes are padded, and are cut to it.

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
    """Pad the choices of each row with "" to equal numbers.

    Example:
        >>> fill_up([["yes"], ["a", "b"]])
        [['yes', ''], ['a', 'b']]
    """
    most = max(map(len, choices), default=0)
    return [row + [""] * (most - len(row)) for row in choices]
