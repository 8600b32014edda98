"""How good a model is on the rows of a file, in total and row by row."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.tasks.question_answering.answers import question_scores, squad_scores
from keras_albert.tasks.task import AlbertTask
from keras_albert.tasks.text_embedding.objectives import cosine_scores
from keras_albert.tasks.text_embedding.search import correlations
from keras_albert.tasks.token_classification.model import score_entities
from keras_albert.text.tags import Span, tags_to_spans
from keras_albert.tools.datasets import Dataset
from keras_albert.tools.report import Report

Scores = dict[str, float]


@dataclass(frozen=True)
class EvaluatedRows:
    """The answers of a model to each row, and how wrong they are."""

    truth: Sequence[Any]
    answers: Sequence[Any]
    # 0 is right; comparable within a file only.
    errors: npt.NDArray[Any]
    # From numbers of rows, which may repeat, to their metrics.
    score: Callable[[npt.NDArray[Any]], Scores]
    # Of each answer, if the model has one, and whether the answer is right.
    probabilities: npt.NDArray[Any] | None = None
    is_right: npt.NDArray[Any] | None = None


@dataclass(frozen=True)
class Evaluation:
    """A report, and the rows that it sums up, if answers are given row by row."""

    report: Report
    rows: EvaluatedRows | None = None


def check_labels(task: AlbertTask, data: Dataset) -> None:
    """Raise if a file has a label that a classifier does not know, with its place."""
    for row in data.y:
        for name in [row] if isinstance(row, str) else row:
            if name not in task.class_names:
                raise ValueError(
                    f"{data.where(name)} has the label {name!r}, but the model knows "
                    f"{', '.join(map(repr, task.class_names))}. Correct or drop it."
                )


def evaluate_classes(task: AlbertTask, data: Dataset) -> Evaluation:
    """Evaluate a classifier, of one class or of several for a text."""
    check_labels(task, data)
    if task.is_multi_label:
        return _evaluate_several(task, data)
    names = task.class_names
    outputs = task.predict(data.x, verbose=0)
    probabilities = task.probabilities(outputs)
    truth = np.array([names.index(label) for label in data.y])
    answers = probabilities.argmax(axis=-1)
    numbers = np.arange(len(truth))
    count = len(names)

    def confusion(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        pairs = truth[rows] * count + answers[rows]
        return np.bincount(pairs, minlength=count**2).reshape(count, count)

    def score(rows: npt.NDArray[Any]) -> Scores:
        counts = confusion(rows)
        return {
            "accuracy": float(counts.trace() / len(rows)),
            "macro F1": float(np.mean(_measures(counts)[2])),
        }

    counts = confusion(numbers)
    chosen = probabilities[numbers, answers]
    right = np.maximum(probabilities[numbers, truth], np.finfo(np.float32).tiny)
    report = Report(score(numbers), _class_rows(names, counts), counts, names)
    return Evaluation(
        report,
        EvaluatedRows(
            data.y,
            [names[answer] for answer in answers],
            -np.log(right),
            score,
            chosen,
            answers == truth,
        ),
    )


def _measures(confusion: npt.NDArray[Any]) -> Any:
    """Return precision, recall and F1 of each class, 0 where nothing is to be found."""
    right, true, found = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    return [
        _divide(right, found),
        _divide(right, true),
        _divide(2 * right, true + found),
    ]


def _divide(counts: Any, totals: Any) -> Any:
    counts, totals = np.asarray(counts, float), np.asarray(totals, float)
    return np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)


def _class_rows(
    names: Sequence[str], confusion: npt.NDArray[Any]
) -> dict[str, dict[str, float]]:
    columns = [*_measures(confusion), confusion.sum(1)]
    measures = ("precision", "recall", "f1-score", "support")
    return {
        name: dict(zip(measures, map(float, row), strict=True))
        for name, *row in zip(names, *columns, strict=True)
    }


def _evaluate_several(task: AlbertTask, data: Dataset) -> Evaluation:
    """Evaluate a classifier of texts that may have several labels."""
    names = task.class_names
    truth = task.encode_targets(data.y) > 0
    probabilities = np.asarray(task.predict(data.x, verbose=0), np.float64)
    answers = probabilities >= 0.5
    right, found = truth & answers, truth.astype(int) + answers

    def score(rows: npt.NDArray[Any]) -> Scores:
        each = _divide(2 * right[rows].sum(0), found[rows].sum(0))
        return {
            "micro F1": float(_divide(2 * right[rows].sum(), found[rows].sum())),
            "macro F1": float(each.mean()),
            "exact match": float((truth == answers)[rows].all(1).mean()),
        }

    classes: dict[str, Scores] = {}
    for number, name in enumerate(names):
        counts = np.histogram2d(truth[:, number], answers[:, number], 2, [[0, 1]] * 2)
        classes[name] = _class_rows(("", name), counts[0])[name]
    rest = np.maximum(np.where(truth, probabilities, 1 - probabilities), 1e-30)
    rows = EvaluatedRows(
        data.y,
        [[names[n] for n in np.flatnonzero(row)] for row in answers],
        -np.log(rest).mean(1),
        score,
    )
    return Evaluation(Report(score(np.arange(len(truth))), classes), rows)


def evaluate_regression(task: AlbertTask, data: Dataset) -> Evaluation:
    """Evaluate a regression."""
    answers = task.predict(data.x, verbose=0)[:, 0]
    return _evaluate_numbers(data.y, answers, with_rmse=True)


def evaluate_similarity(task: AlbertTask, data: Dataset) -> Evaluation:
    """Evaluate an embedder."""
    vectors = np.stack([task.embed(texts) for texts in data.x], axis=1)
    cosines = keras.ops.convert_to_numpy(cosine_scores(vectors))[:, 0]
    return _evaluate_numbers(data.y, cosines, with_rmse=False)


def _evaluate_numbers(y: Any, answers: Any, with_rmse: bool) -> Evaluation:
    truth = np.asarray(y)

    def score(rows: npt.NDArray[Any]) -> Scores:
        rmse = float(np.sqrt(np.mean((truth[rows] - answers[rows]) ** 2)))
        found = correlations(truth[rows], answers[rows])
        return {"RMSE": rmse} | found if with_rmse else found

    rows = EvaluatedRows(y, answers.tolist(), np.abs(truth - answers), score)
    return Evaluation(Report(score(np.arange(len(truth)))), rows)


def evaluate_masks(task: AlbertTask, data: Dataset) -> Evaluation:
    """Evaluate a masked language model, whose masks are drawn at random."""
    found = task.evaluate(data.x, verbose=0, return_dict=True)
    scores = {name: float(value) for name, value in found.items()}
    perplexity = math.exp(min(scores["loss"], 100.0))
    return Evaluation(Report(scores | {"perplexity": perplexity}))


def evaluate_choices(task: AlbertTask, data: Dataset) -> Evaluation:
    """Evaluate a model that chooses answers."""
    *context, questions, choices = data.x
    found = task.choose(*(context or [None]), questions, choices)
    truth = np.array(data.y)
    answers = np.array([each["index"] for each in found])
    probabilities = [each["scores"] for each in found]
    right = np.array([row[n] for row, n in zip(probabilities, data.y, strict=True)])
    losses = -np.log(np.maximum(right, np.finfo(np.float32).tiny))

    def score(rows: npt.NDArray[Any]) -> Scores:
        accuracy = float((truth == answers)[rows].mean())
        return {"accuracy": accuracy, "loss": float(losses[rows].mean())}

    rows = EvaluatedRows(
        [row[number] for row, number in zip(choices, data.y, strict=True)],
        [each["choice"] for each in found],
        losses,
        score,
        np.array([max(row) for row in probabilities]),
        answers == truth,
    )
    return Evaluation(Report(score(np.arange(len(truth)))), rows)


def tune_answers(task: AlbertTask, data: Dataset) -> Dataset:
    """Choose the threshold of "no answer" on half of the rows; return the others."""
    (questions, contexts), answers = data.x, data.y
    half = len(answers) // 2
    first, rest = slice(half), slice(half, None)
    if len({bool(answer["text"]) for answer in answers[first]}) < 2:
        return data
    task.choose_null_threshold((questions[first], contexts[first]), answers[first])
    return replace(data, x=(questions[rest], contexts[rest]), y=answers[rest])


def evaluate_answers(task: AlbertTask, data: Dataset) -> Evaluation:
    """Evaluate a question answerer."""
    found = task.answer(*data.x)
    given = [each["answer"] for each in found]
    truth = [answer["text"] for answer in data.y]
    is_version_2 = not all(truth)
    each = np.array(
        [
            question_scores(answer, right, is_version_2)
            for answer, right in zip(given, truth, strict=True)
        ]
    )

    def score(rows: npt.NDArray[Any]) -> Scores:
        exact, f1 = 100 * each[rows].mean(0)
        return {"exact_match": float(exact), "f1": float(f1)}

    scores = squad_scores(given, data.y)
    report = Report({name: float(value) for name, value in scores.items()})
    return Evaluation(report, EvaluatedRows(truth, given, 1 - each[:, 1], score))


def evaluate_entities(task: AlbertTask, data: Dataset) -> Evaluation:
    """Evaluate a token classifier."""
    names = task.class_names
    tags = [[names[number] for number in row] for row in task.encode_targets(data.y)]
    expected = [tags_to_spans(row) for row in tags]
    found = [
        [Span(e["start_word"], e["end_word"], e["label"]) for e in row]
        for row in task.tag(data.x)
    ]
    pairs = [(set(a), set(b)) for a, b in zip(expected, found, strict=True)]
    counts = np.array([(len(a & b), len(b), len(a)) for a, b in pairs])

    def score(rows: npt.NDArray[Any]) -> Scores:
        right, predicted, true = counts[rows].sum(0)
        return {
            "entity precision": float(_divide(right, predicted)),
            "entity recall": float(_divide(right, true)),
            "entity f1": float(_divide(2 * right, predicted + true)),
        }

    scores: dict[str, Any] = score_entities(expected, found)
    classes = scores.pop("labels")
    del scores["support"]
    report = Report({f"entity {name}": x for name, x in scores.items()}, classes)
    truth, answers = (
        [_entities(row, words) for row, words in zip(side, data.x, strict=True)]
        for side in (expected, found)
    )
    errors = counts[:, 1] + counts[:, 2] - 2 * counts[:, 0]
    return Evaluation(
        report, EvaluatedRows(truth, answers, errors.astype(float), score)
    )


def _entities(spans: Sequence[Span], words: Sequence[str]) -> list[str]:
    return [f"{s.label}: {' '.join(words[s.start : s.end])}" for s in spans]
