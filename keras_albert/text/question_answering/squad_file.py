"""Reads files in SQuAD's format."""

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from keras_albert.utils.local_path import local_path


class SquadFile(NamedTuple):
    """The questions of a SQuAD file, in the file's order.

    Args:
        ids: The ids of the questions.
        questions: The questions.
        contexts: The paragraph of each question.
        answers: A dict of the lists `text` and `answer_start` for each question; the
            lists are empty if the paragraph does not contain an answer.
    """

    ids: list[str]
    questions: list[str]
    contexts: list[str]
    answers: list[dict[str, list[Any]]]

    @property
    def x(self) -> tuple[list[str], list[str]]:
        """The questions and the contexts, as an argument of `fit`."""
        return self.questions, self.contexts

    @property
    def has_unanswerable(self) -> bool:
        """Whether some questions have no answer, as in SQuAD 2.0."""
        return not all(answer["text"] for answer in self.answers)

    def take(self, rows: slice) -> "SquadFile":
        """Return some of the questions.

        Args:
            rows: slice. Which questions.

        Returns:
            A `SquadFile`.
        """
        return SquadFile(
            self.ids[rows],
            self.questions[rows],
            self.contexts[rows],
            self.answers[rows],
        )


def read_squad(path: str | os.PathLike[str]) -> SquadFile:
    """Read a file of SQuAD 1.1 or 2.0, or any file in the same format.

    `{"data": [{"paragraphs": [{"context": "...", "qas": [{"id": "...", "question":
    "...", "answers": [{"text": "...", "answer_start": 0}]}]}]}]}`; in SQuAD 2.0, a
    question without an answer has `"is_impossible": true` and no `answers`.

    Source: [Rajpurkar et al., 2016](https://arxiv.org/abs/1606.05250) and
    [2018](https://arxiv.org/abs/1806.03822).

    Args:
        path: string or path. A JSON file, UTF-8.

    Returns:
        The questions.

    Raises:
        ValueError: If the file is not in this format; the message names the place.

    Example:
        >>> import json, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "squad.json")
        >>> answers = [{"text": "Rome", "answer_start": 0}]
        >>> qas = [{"id": "1", "question": "Where?", "answers": answers}]
        >>> paragraphs = [{"context": "Rome, then.", "qas": qas}]
        >>> _ = path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
        >>> read_squad(path).answers
        [{'text': ['Rome'], 'answer_start': [0]}]
    """
    path = local_path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        msg = f"{path} is no JSON in UTF-8 ({error}). Read or download it again."
        raise ValueError(msg) from error
    rows = list(_questions(_Place(str(path), content)))
    seen: dict[str, str] = {}
    for identity, _, _, _, where in rows:
        if identity in seen:
            msg = (
                f"{where} has the id {identity!r}, as {seen[identity]} has. Give each "
                "question an id of its own."
            )
            raise ValueError(msg)
        seen[identity] = where
    if not rows:
        raise ValueError(f"{path} holds no questions.")
    columns = list(zip(*rows, strict=True))[:-1]
    return SquadFile(*map(list, columns))


class _Place:
    """A value in the file, with its path for error messages."""

    def __init__(self, where: str, value: Any) -> None:
        self.where = where
        self.value = value

    def get(self, key: str, kind: type, default: Any = None) -> "_Place":
        value = self.value.get(key, default) if isinstance(self.value, dict) else None
        # `True` is an int in Python, but not a position in a text.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            what = "nothing" if value is None else repr(value)[:60]
            msg = (
                f"{self.where} has {what} as {key!r}, and SQuAD's form has "
                f"{_KINDS[kind]} there. Correct the file, or see `read_squad` for "
                "the form."
            )
            raise ValueError(msg)
        return _Place(f"{self.where}, {key}", value)

    def items(self) -> "Iterator[_Place]":
        for number, value in enumerate(self.value):
            yield _Place(f"{self.where}[{number}]", value)


_KINDS = {
    str: "a text",
    list: "a list",
    int: "a whole number",
    bool: "true or false",
}


def _questions(file: _Place) -> Iterator[tuple[str, str, str, dict[str, Any], str]]:
    for article in file.get("data", list).items():
        for paragraph in article.get("paragraphs", list).items():
            context = paragraph.get("context", str).value
            for question in paragraph.get("qas", list).items():
                yield (
                    question.get("id", str, question.where).value,
                    question.get("question", str).value,
                    context,
                    _answers(question),
                    question.where,
                )


def _answers(question: _Place) -> dict[str, list[Any]]:
    answers = list(question.get("answers", list, []).items())
    if question.get("is_impossible", bool, False).value and answers:
        msg = (
            f"{question.where} has `is_impossible` and {len(answers)} answers. Leave "
            "out one of the two."
        )
        raise ValueError(msg)
    return {
        "text": [answer.get("text", str).value for answer in answers],
        "answer_start": [answer.get("answer_start", int).value for answer in answers],
    }
