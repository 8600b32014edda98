"""Reads files in the formats of SQuAD and CoNLL."""

import json
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from keras_albert.utils.reading import reading
from keras_albert.utils.remote import fetch


class SquadFile(NamedTuple):
    """The questions of a SQuAD file, in the file's order.

    Args:
        ids: The ids of the questions.
        questions: The questions.
        contexts: The paragraph of each question.
        answers: A dict of the lists `text` and `answer_start` for each question; the
            lists are empty if the paragraph does not contain an answer.

    Example:
        >>> from keras_albert.text import SquadFile
        >>> answers = [{"text": ["Ada"], "answer_start": [0]}]
        >>> file = SquadFile(["1"], ["Who opened it?"], ["Ada opened it."], answers)
        >>> file.questions
        ['Who opened it?']
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

        Example:
            >>> from keras_albert.text import SquadFile
            >>> nothing = {"text": [], "answer_start": []}
            >>> file = SquadFile(
            ...     ["1", "2"], ["Who?", "When?"], ["Here."] * 2, [nothing] * 2)
            >>> file.take(slice(1)).questions
            ['Who?']
        """
        columns: Any = (column[rows] for column in self)
        return SquadFile(*columns)


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
        >>> import json, pathlib
        >>> path = pathlib.Path("squad.json")
        >>> answers = [{"text": "Rome", "answer_start": 0}]
        >>> qas = [{"id": "1", "question": "Where?", "answers": answers}]
        >>> paragraphs = [{"context": "Rome, then.", "qas": qas}]
        >>> _ = path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
        >>> read_squad(path).answers
        [{'text': ['Rome'], 'answer_start': [0]}]
    """
    path = fetch(path)
    with reading(path):
        content = json.loads(path.read_bytes())
    rows = list(_questions(_Place(str(path), content)))
    seen: dict[str, str] = {}
    for identity, _, _, _, where in rows:
        if identity in seen:
            raise ValueError(
                f"{where} has the same id as {seen[identity]}: {identity!r}. Give each "
                "question its own id."
            )
        seen[identity] = where
    if not rows:
        raise ValueError(f"{path} contains no questions.")
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
            raise ValueError(
                f"{self.where} has {what} as {key!r}, but SQuAD's format needs "
                f"{_KINDS[kind]} there. Correct the file; `read_squad` describes the "
                "format."
            )
        return _Place(f"{self.where}, {key}", value)

    def items(self) -> "Iterator[_Place]":
        for number, value in enumerate(self.value):
            yield _Place(f"{self.where}[{number}]", value)


_KINDS = {str: "a text", list: "a list", int: "a whole number", bool: "true or false"}


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
        raise ValueError(
            f"{question.where} has `is_impossible` and {len(answers)} answers. Leave "
            "out one of the two."
        )
    return {
        "text": [answer.get("text", str).value for answer in answers],
        "answer_start": [answer.get("answer_start", int).value for answer in answers],
    }


_DOCUMENT = "-DOCSTART-"


def read_conll(
    path: str | os.PathLike[str], word_column: int = 0, tag_column: int = -1
) -> tuple[list[list[str]], list[list[str]]]:
    r"""Read a CoNLL file: a word and its tag on each line, a blank line after a text.

    Columns are separated by tabs if the line contains a tab, otherwise by spaces.
    Lines that start with `-DOCSTART-` separate texts as well.

    Args:
        path: string or path. A UTF-8 file.
        word_column: int. The column of the word. Defaults to `0`.
        tag_column: int. The column of the tag. Defaults to `-1`, the last column.

    Returns:
        The words and the tags of each text.

    Raises:
        FileNotFoundError: If the file does not exist.
        ValueError: If a line has too few columns, or the file is not UTF-8 or does not
            contain words; the message names the file and the line.

    Source: [Tjong Kim Sang and De Meulder, 2003](https://arxiv.org/abs/cs/0306050).

    Example:
        >>> import pathlib
        >>> path = pathlib.Path("train.conll")
        >>> _ = path.write_text("Ada\tB-person\nwrote\tO\n\nOslo\tB-place\n")
        >>> read_conll(path)
        ([['Ada', 'wrote'], ['Oslo']], [['B-person', 'O'], ['B-place']])
    """
    texts: list[tuple[list[str], list[str]]] = [([], [])]
    path = fetch(path)
    with reading(path, "Convert it to UTF-8, for instance with `iconv`."):
        content = path.read_bytes().decode("utf-8-sig")
    # Not `splitlines`, which also splits at characters that occur within tweets.
    for number, line in enumerate(content.split("\n"), start=1):
        words, tags = texts[-1]
        if not line.strip() or line.startswith(_DOCUMENT):
            if words:
                texts.append(([], []))
            continue
        columns = line.rstrip("\r").split("\t" if "\t" in line else None)
        try:
            word, tag = columns[word_column], columns[tag_column].strip()
        except IndexError:
            word, tag = "", ""
        if len(columns) < 2 or not tag:
            raise ValueError(
                f"{path}, line {number}: {line.strip()[:60]!r} should be a word and "
                "its tag, with a tab or a space between them. Correct the line, or "
                "leave it empty where a text ends."
            )
        words.append(word)
        tags.append(tag)
    found = [each for each in texts if each[0]]
    if not found:
        msg = f"{path} contains no words. A line should be a word, a tab and its tag."
        raise ValueError(msg)
    return [words for words, _ in found], [tags for _, tags in found]
