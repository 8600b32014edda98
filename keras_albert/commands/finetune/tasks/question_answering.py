"""Question answering: answers are spans of a context."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from keras_albert.commands.finetune.report import Report
from keras_albert.commands.finetune.tasks.base import Data, Kind
from keras_albert.tasks import AlbertQuestionAnswerer
from keras_albert.tasks.question_answering.squad_scores import squad_scores
from keras_albert.text.question_answering.squad_file import read_squad


def _read(path: Path, arguments: argparse.Namespace) -> Data:
    file = read_squad(path).take(slice(arguments.limit))

    def texts() -> Iterator[str]:
        yield from file.questions
        yield from dict.fromkeys(file.contexts)

    empty = sum(not answer["text"] for answer in file.answers)
    return Data(
        x=file.x,
        y=file.answers,
        texts=texts,
        description=f"{path}: {len(file.ids):,} questions, {empty:,} without an answer",
        # Only the conditional head can predict that there is no answer.
        head={"head": "conditional" if empty else "independent"},
    )


def _report(task: AlbertQuestionAnswerer, data: Data) -> Report:
    (questions, contexts), answers = data.x, data.y
    has_answer = [bool(answer["text"]) for answer in answers]
    half = len(answers) // 2
    tuned = slice(half)
    if len(set(has_answer[tuned])) > 1:
        # The threshold is chosen and the model evaluated on different examples.
        task.choose_null_threshold((questions[tuned], contexts[tuned]), answers[tuned])
        rest = slice(half, None)
        questions, contexts, answers = questions[rest], contexts[rest], answers[rest]
    given = task.answer(questions, contexts)
    scores = squad_scores([answer["answer"] for answer in given], answers)
    return Report({name: float(value) for name, value in scores.items()})


QUESTION_ANSWERING = Kind(
    AlbertQuestionAnswerer,
    _read,
    _report,
    ("val_loss", "min"),
    'model.answer("a question", "a context")',
)
