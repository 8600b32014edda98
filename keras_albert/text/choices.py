"""Questions with choices: a row of tokens for each choice."""

from string import ascii_uppercase
from typing import Any

import numpy as np

from keras_albert.text.packing import EncodedTexts, SpecialIds, TokenRows, ragged_range
from keras_albert.text.reading import plain_column, split_columns, to_text_rows
from keras_albert.types import Int64Array, IntArray


def choice_columns(x: Any) -> tuple[tuple[list[Any], ...], bool]:
    """Read questions into columns; return also whether they were a batch."""
    is_empty = isinstance(x, list) and not x
    columns = split_columns(([], []) if is_empty else x)
    if len(columns) not in (2, 3):
        raise TypeError(
            "Pass (contexts, questions, choices), (questions, choices), a list of such "
            "tuples, or a data set of ((contexts, questions, choices), answers). "
            f"Received: {type(x).__name__} of {len(columns)} columns"
        )
    *texts, choices = columns
    names = ("contexts", "questions")[-len(texts) :]
    read = [to_text_rows(c, name=n) for c, n in zip(texts, names, strict=True)]
    batched = read[-1][1]
    columns = (*(rows for rows, _ in read), _read_choices(choices, batched))
    counts = [len(column) for column in columns]
    if len(set(counts)) > 1 or len({batch for _, batch in read}) > 1:
        parts = zip((*names, "lists of choices"), counts, strict=True)
        raise ValueError(
            "Each question needs its context and its choices. Received: "
            f"{', '.join(f'{count} {name}' for name, count in parts)}."
        )
    return columns, batched


def _read_choices(choices: Any, batched: bool) -> list[list[str]]:
    choices = plain_column(choices)
    if hasattr(choices, "numpy"):
        choices = choices.numpy()
    rows = choices if batched else [choices]
    return [_read_row(row, number) for number, row in enumerate(rows)]


def _read_row(row: Any, number: int) -> list[str]:
    if row is None or isinstance(row, str | bytes):
        msg = f"The choices of row {number} are {row!r:.80}. Pass a list of texts."
        raise ValueError(msg)
    texts, _ = to_text_rows(row, name=f"the choices of row {number}")
    if not texts:
        msg = f"Row {number} has no choices. Give it at least one, or drop it."
        raise ValueError(msg)
    for choice, text in enumerate(texts):
        if not text.strip():
            msg = (
                f"Choice {choice} of row {number} is empty. Give it a text, or drop it."
            )
            raise ValueError(msg)
    return texts


def encode_answers(y: Any) -> IntArray:
    """Convert answers, numbers from 0 or letters from "A", to numbers of choices."""
    y = plain_column(y)
    # As objects: NumPy would convert numbers to strings in a list with letters.
    answers = np.asarray(y, object if isinstance(y, list | tuple) else None)
    if answers.ndim == 2 and answers.shape[1] == 1:
        answers = answers[:, 0]
    if answers.ndim != 1:
        raise ValueError(
            "Each question must have one right choice. Received answers of shape "
            f"{answers.shape}. For one-hot answers pass `y.argmax(axis=-1)`."
        )
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
        raise ValueError(
            f"Row {row} has the answer {_name(answer)}, but its question has {count} "
            f"choices, {_name(0)} to {_name(count - 1)}."
        )


def _number(answer: Any, row: int) -> int:
    if isinstance(answer, bytes):
        answer = answer.decode("utf-8", errors="replace")
    if isinstance(answer, str) and len(answer) == 1:
        number = ascii_uppercase.find(answer.upper())
        if number >= 0:
            return number
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    is_number = isinstance(answer, int | np.integer) and type(answer) is not bool
    if is_number and answer >= 0:
        return int(answer)
    raise ValueError(
        f"Row {row} has the answer {answer!r}. Pass the number of the right choice, "
        "from 0 on, or its letter, from 'A' on."
    )


def _name(answer: int) -> str:
    letter = ascii_uppercase[answer : answer + 1]
    return f"{answer} ({letter})" if letter else str(answer)


class ChoiceRows:
    """Questions whose choices are packed as rows `[CLS] text [SEP] choice [SEP]`."""

    # The last `max_choice_length` tokens of a choice are kept, and the text is
    # truncated. `text_numbers` index the distinct `texts`; `choices` are concatenated,
    # by `counts`.

    def __init__(
        self,
        texts: TokenRows,
        text_numbers: Int64Array,
        choices: TokenRows,
        counts: Int64Array,
        special: SpecialIds,
        max_length: int,
        max_choice_length: int,
    ) -> None:
        self.counts = counts
        self.special = special
        self.max_length = max_length
        # Leaves room for `[CLS]`, two `[SEP]` and one token of the text.
        longest = min(max_choice_length, max_length - 4)
        kept = np.minimum(choices.lengths, longest)
        numbers = np.repeat(text_numbers, counts)
        kept_text = np.minimum(texts.lengths[numbers], max_length - 3 - kept)
        # The ids of each column; for each row, where its ids start, and their number.
        self._columns = (
            (texts.values, texts.starts[numbers], kept_text),
            (choices.values, choices.starts + choices.lengths - kept, kept),
        )
        self._firsts = np.cumsum(counts) - counts
        rows = kept + kept_text + 3
        present = np.arange(counts.max(initial=1)) < counts[:, None]
        self.text_lengths: Int64Array = np.zeros(present.shape, np.int64)
        self.text_lengths[present] = rows
        self.lengths: Int64Array = self.text_lengths.max(axis=1)

    def __len__(self) -> int:
        return len(self.counts)

    def pack(self, indices: Int64Array, length: int) -> dict[str, IntArray]:
        """Pack questions as `(batch, choices, length)`; a missing choice is padding."""
        counts = self.counts[indices]
        most = int(counts.max(initial=1))
        present = np.arange(most) < counts[:, None]
        rows = (self._firsts[indices][:, None] + np.arange(most))[present]
        columns = tuple(
            TokenRows(values[ragged_range(starts[rows], kept[rows])], kept[rows])
            for values, starts, kept in self._columns
        )
        packed = EncodedTexts(columns, self.special, self.max_length).pack(
            np.arange(len(rows)), length
        )
        boxes = {}
        for name, values in packed.items():
            fill = self.special.pad if name == "token_ids" else 0
            boxes[name] = np.full((*present.shape, length), fill, np.int32)
            boxes[name][present] = values
        return boxes


def fill_in(question: str, choice: str) -> str:
    """Insert a choice into its question, by RACE's rule."""
    if "_" in question:
        return question.replace("_", choice)
    return f"{question} {choice}"
