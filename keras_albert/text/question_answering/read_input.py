"""Reads questions and contexts from lists, arrays, data frames, tensors and dicts."""

from collections.abc import Mapping
from typing import Any

from keras_albert.text.inputs.read_text_columns import text_columns

_KEYS = ("question", "context")


def question_contexts(x: Any) -> tuple[tuple[list[str], ...], bool]:
    """Read questions with their contexts into two columns.

    Args:
        x: `(questions, contexts)`, a list of pairs, a list of dicts of `question` and
            `context`, or one such dict of two texts or two lists.

    Returns:
        The questions and the contexts, and whether `x` was a batch.

    Raises:
        TypeError: If `x` is of another type.
        ValueError: If a row is incomplete; the message names it.

    Example:
        >>> question_contexts([{"question": "Who?", "context": "He."}])
        ((['Who?'], ['He.']), True)
        >>> question_contexts(("Who?", "He."))
        ((['Who?'], ['He.']), False)
    """
    if isinstance(x, Mapping):
        _check_keys(x, "`x`")
        x = tuple(x[key] for key in _KEYS)
    elif isinstance(x, list) and any(isinstance(row, Mapping) for row in x):
        for row, example in enumerate(x):
            _check_keys(example, f"Row {row} of `x`")
        x = tuple([example[key] for example in x] for key in _KEYS)
    elif isinstance(x, list) and not x:
        x = ([], [])
    columns, batched = text_columns(x)
    if len(columns) != len(_KEYS):
        msg = (
            "Each question needs its context. Received one text for each example. Pass "
            "(questions, contexts), a list of pairs, or a list of dicts of `question` "
            "and `context`."
        )
        raise ValueError(msg)
    return columns, batched


def _check_keys(example: Any, what: str) -> None:
    if not isinstance(example, Mapping) or not set(_KEYS) <= set(example):
        received = (
            sorted(example) if isinstance(example, Mapping) else type(example).__name__
        )
        msg = f"{what} is no dict of `question` and `context`. Received: {received}"
        raise ValueError(msg)
