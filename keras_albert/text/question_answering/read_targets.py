"""Reads the answers to questions: spans of the context, or no answer."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

# The correct answers to a question, each with its first character and its text; empty
# if the context does not contain an answer.
Answers: TypeAlias = tuple[tuple[int, str], ...]


def read_answers(y: Any) -> list[Answers]:
    """Read the answers to questions: any number for each question.

    An element is SQuAD's dict of lists, a pair `(start, text)` or `None`; or `y` is a
    dict of columns. The first answer is trained on.
    """
    if isinstance(y, Mapping):
        y = [
            {"text": text, "answer_start": start}
            for text, start in zip(*_columns(y), strict=True)
        ]
    if isinstance(y, str | bytes) or not hasattr(y, "__iter__"):
        msg = (
            "Answers are a list with, for each question, a dict of `text` and "
            "`answer_start`, a pair (start, text), or None for no answer. Received: "
            f"{type(y).__name__}"
        )
        raise TypeError(msg)
    return [_read_row(answer, row) for row, answer in enumerate(y)]


def _columns(y: Mapping[str, Any]) -> tuple[Any, Any]:
    if not {"text", "answer_start"} <= set(y):
        msg = (
            "A dict of answers has the columns `text` and `answer_start`. Received: "
            f"{sorted(y)}"
        )
        raise ValueError(msg)
    texts, starts = y["text"], y["answer_start"]
    if len(texts) != len(starts):
        msg = (
            f"There are {len(texts)} texts of answers, but {len(starts)} values of "
            "`answer_start`. Each answer needs both."
        )
        raise ValueError(msg)
    return texts, starts


def _read_row(answer: Any, row: int) -> Answers:
    if answer is None:
        return ()
    if isinstance(answer, Mapping):
        try:
            texts, starts = _columns(answer)
        except (TypeError, ValueError):
            # Single values, or invalid ones, which are reported below.
            texts, starts = answer.get("text"), answer.get("answer_start")
        if isinstance(texts, str | bytes):
            texts, starts = [texts], np.reshape(starts, -1)
        if _is_list(texts) and _is_list(starts) and len(texts) == len(starts):
            pairs = zip(starts, texts, strict=True)
            return tuple(_read_pair(start, text, row) for start, text in pairs)
    elif isinstance(answer, tuple | list):
        if len(answer) == 2 and not isinstance(answer[0], tuple | list):
            return (_read_pair(answer[0], answer[1], row),)
        if all(isinstance(part, tuple) and len(part) == 2 for part in answer):
            return tuple(_read_pair(part[0], part[1], row) for part in answer)
    msg = (
        f"Row {row} of the answers is {str(answer)[:80]!r}. Pass a dict of `text` and "
        "`answer_start`, two lists of one length; a pair (start, text); or None where "
        "the context has no answer."
    )
    raise ValueError(msg)


def _is_list(values: Any) -> bool:
    return isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)


def _read_pair(start: Any, text: Any, row: int) -> tuple[int, str]:
    if isinstance(text, bytes):
        text = text.decode()
    try:
        first = -1 if isinstance(start, bool) else operator.index(start)
    except TypeError:
        first = -1
    if first < 0 or not isinstance(text, str) or not text.strip():
        msg = (
            f"Row {row} of the answers has the start {start!r} and the text "
            f"{str(text)[:80]!r}. An answer is a text that is not empty, and the "
            "number of its first character in the context, from 0 on; pass None where "
            "there is no answer."
        )
        raise ValueError(msg)
    return first, text


def answer_spans(
    answers: Sequence[Answers], contexts: Sequence[str], misaligned: str = "error"
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[int]]:
    """Find the characters of the first answer to each question.

    Returns first characters and those after the last, -1 without an answer, and the
    questions to drop; "repair" takes the nearest place where the text is found.
    """
    spans = np.full((len(answers), 2), -1, np.int64)
    dropped = []
    for row, (pairs, context) in enumerate(zip(answers, contexts, strict=True)):
        if not pairs:
            continue
        start, text = pairs[0]
        if not context.startswith(text, start):
            found = context[start : start + len(text)]
            nearest = _nearest(context, text, start)
            if misaligned == "drop":
                dropped.append(row)
                continue
            if misaligned != "repair" or nearest is None:
                where = (
                    "The context does not have it anywhere: correct the answer, or "
                    "leave its row out"
                    if nearest is None
                    else f"It begins at {nearest}: correct `answer_start`, or pass "
                    'misaligned="repair"'
                )
                msg = (
                    f"The answer of row {row}, {text[:80]!r}, is not what its context "
                    f"has at character {start}: {found[:80]!r}. {where} "
                    '(misaligned="drop" leaves out all such rows).'
                )
                raise ValueError(msg)
            start = nearest
        # Whitespace around an answer does not belong to any token.
        lead = len(text) - len(text.lstrip())
        spans[row] = start + lead, start + len(text.rstrip())
    return spans, dropped


def _nearest(context: str, text: str, start: int) -> int | None:
    before = context.rfind(text, 0, start + len(text))
    after = context.find(text, start)
    places = [place for place in (before, after) if place >= 0]
    return min(places, key=lambda place: abs(place - start), default=None)
