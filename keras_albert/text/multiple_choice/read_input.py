"""Reads questions with choices from tuples, lists and dicts."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_albert.text.inputs.read_texts import plain_column, to_text_rows

_KEYS = ("context", "question", "choices")


def choice_columns(x: Any) -> tuple[tuple[list[Any], ...], bool]:
    """Read questions into columns.

    Args:
        x: `(contexts, questions, choices)`, or `(questions, choices)` without
            contexts; a list of such tuples; or a dict of `context` (optional),
            `question` and `choices`, or a list of dicts. `choices` is a list of texts
            for one question, and a list of lists for many.

    Returns:
        The columns, `(contexts, questions, choices)` or `(questions, choices)`, and
        whether `x` was a batch.

    Raises:
        TypeError: If `x` is of another type.
        ValueError: If a row is incomplete; the message names it.

    Example:
        >>> choice_columns({"question": "Who?", "choices": ["I", "you"]})
        ((['Who?'], [['I', 'you']]), False)
        >>> choice_columns(([], [], []))
        (([], [], []), True)
    """
    if isinstance(x, list):
        x = _transpose(x)
    elif isinstance(x, Mapping):
        _check_keys(x, "`x`")
        x = tuple(x[key] for key in _KEYS if x.get(key) is not None)
    if not isinstance(x, tuple) or len(x) not in (2, 3):
        kind = f"a tuple of {len(x)}" if isinstance(x, tuple) else type(x).__name__
        msg = (
            "Pass (contexts, questions, choices), (questions, choices), or a list of "
            f"dicts with {', '.join(_KEYS)}. Received: {kind}"
        )
        raise TypeError(msg)
    *texts, choices = x
    names = ("contexts", "questions")[-len(texts) :]
    read = [to_text_rows(c, name=n) for c, n in zip(texts, names, strict=True)]
    batched = read[-1][1]
    columns: tuple[list[Any], ...]
    columns = (*(rows for rows, _ in read), _read_choices(choices, batched))
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1 or len({batch for _, batch in read}) > 1:
        parts = zip((*names, "lists of choices"), counts, strict=True)
        msg = (
            "Each question needs its context and its choices. Received: "
            f"{', '.join(f'{count} {name}' for name, count in parts)}."
        )
        raise ValueError(msg)
    return columns, batched


def _transpose(rows: list[Any]) -> tuple[list[Any], ...]:
    """Convert a list of dicts or tuples to columns."""
    if not rows:
        return [], []
    for number, row in enumerate(rows):
        name = f"Row {number}"
        if isinstance(row, Mapping):
            _check_keys(row, name)
        elif not isinstance(row, tuple) or len(row) not in (2, 3):
            msg = (
                f"{name} is {row!r:.80}. Pass a dict with {', '.join(_KEYS)}, or a "
                "tuple (context, question, choices)."
            )
            raise TypeError(msg)
    tuples = [
        tuple(row[key] for key in _KEYS if row.get(key) is not None)
        if isinstance(row, Mapping)
        else row
        for row in rows
    ]
    width = len(tuples[0])
    for number, row in enumerate(tuples):
        if len(row) != width:
            has = {2: "no context", 3: "a context"}
            msg = (
                f"Row {number} has {has[len(row)]}, and row 0 has {has[width]}. Give "
                "all rows one, if only an empty text, or none."
            )
            raise ValueError(msg)
    return tuple([row[column] for row in tuples] for column in range(width))


def _check_keys(row: Mapping[Any, Any], name: str) -> None:
    missing = [key for key in _KEYS[1:] if row.get(key) is None]
    if missing:
        msg = (
            f"{name} has no {missing[0]!r}; it has {', '.join(map(repr, row))}. Each "
            "question needs 'question' and 'choices', and may have a 'context'."
        )
        raise ValueError(msg)


def _read_choices(choices: Any, batched: bool) -> list[list[str]]:
    choices = (
        choices.to_list() if hasattr(choices, "to_list") else plain_column(choices)
    )
    if hasattr(choices, "numpy"):
        choices = choices.numpy()
    if isinstance(choices, str | bytes) or not isinstance(
        choices, list | tuple | np.ndarray
    ):
        msg = (
            "`choices` are lists of texts, one list a question. Received: "
            f"{type(choices).__name__}"
        )
        raise TypeError(msg)
    rows = choices if batched else [choices]
    return [_read_row(row, number) for number, row in enumerate(rows)]


def _read_row(row: Any, number: int) -> list[str]:
    if row is None or isinstance(row, str | bytes):
        msg = (
            f"The choices of row {number} are {row!r:.80}. Pass a list of texts for "
            "each question."
        )
        raise ValueError(msg)
    texts, _ = to_text_rows(row, name=f"the choices of row {number}")
    if not texts:
        msg = f"Row {number} has no choices. Give it at least one, or drop it."
        raise ValueError(msg)
    for choice, text in enumerate(texts):
        if not text.strip():
            msg = (
                f"Choice {choice} of row {number} is empty. Give it a text, such as "
                "'nothing', or drop it."
            )
            raise ValueError(msg)
    return texts
