"""Reads the correct choices, given as numbers or letters."""

from string import ascii_uppercase
from typing import Any

import numpy as np

from keras_albert.text.inputs.read_texts import plain_column
from keras_albert.types import Int64Array, IntArray


def encode_answers(y: Any) -> IntArray:
    """Convert answers to the numbers of the correct choices.

    An answer is a number from 0 on, or a letter from "A" on; errors name the row.
    """
    y = plain_column(y.detach().cpu() if hasattr(y, "detach") else y)
    # As objects: NumPy would convert numbers to strings in a list with letters.
    answers = np.asarray(y, object if isinstance(y, list | tuple) else None)
    if answers.ndim == 2 and answers.shape[1] == 1:
        answers = answers[:, 0]
    if answers.ndim != 1:
        msg = (
            "Each question has one right choice. Received answers of shape "
            f"{answers.shape}. For one-hot answers pass `y.argmax(axis=-1)`."
        )
        raise ValueError(msg)
    if answers.dtype.kind in "iu" and not (answers < 0).any():
        return answers.astype(np.int32)
    numbers = [_number(answer, row) for row, answer in enumerate(answers.tolist())]
    return np.array(numbers, np.int32)


def check_answers(answers: IntArray, counts: Int64Array) -> None:
    """Check that each question has the choice that its answer names."""
    wrong = np.asarray(answers) >= counts
    if wrong.any():
        row = int(wrong.argmax())
        answer, count = int(answers[row]), int(counts[row])
        msg = (
            f"Row {row} has the answer {_name(answer)}, and its question has {count} "
            f"choices, {_name(0)} to {_name(count - 1)}. Correct the answer, or add "
            "the choice."
        )
        raise ValueError(msg)


def _number(answer: Any, row: int) -> int:
    if isinstance(answer, bytes):
        answer = answer.decode("utf-8", errors="replace")
    if isinstance(answer, str) and len(answer) == 1:
        number = ascii_uppercase.find(answer.upper())
        if number >= 0:
            return number
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    if (
        type(answer) is not bool
        and isinstance(answer, int | np.integer)
        and answer >= 0
    ):
        return int(answer)
    msg = (
        f"Row {row} has the answer {answer!r}. Pass the number of the right choice, "
        "from 0 on, or its letter, from 'A' on; drop the row if nobody knows."
    )
    raise ValueError(msg)


def _name(answer: int) -> str:
    letter = ascii_uppercase[answer : answer + 1]
    return f"{answer} ({letter})" if letter else str(answer)
