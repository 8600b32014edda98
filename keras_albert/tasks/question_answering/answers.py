"""SQuAD's scores of answers, and the threshold of "no answer"."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.text.spans import read_answers

# In place of an infinite score, if there is no candidate.
_SURE = 1e9


def best_null_threshold(
    null_scores: npt.NDArray[np.float64],
    answered: npt.NDArray[np.float64],
    unanswered: npt.NDArray[np.float64],
) -> float:
    """Choose the threshold of "no answer" with the best average score."""
    order = np.argsort(null_scores, kind="stable")
    scores = np.clip(null_scores[order], -_SURE, _SURE)
    gains = np.cumsum(answered[order] - unanswered[order])
    # Thresholds: below all questions, between two neighbours, above all.
    totals = np.concatenate([[0.0], gains])
    totals[1:-1][scores[1:] == scores[:-1]] = -np.inf
    padded = np.concatenate([[scores[0] - 1], scores, [scores[-1] + 1]])
    best = int(np.argmax(totals))
    below, above = (0, 0) if best == 0 else (best, best + 1)
    if best == len(scores):
        below = above
    return float((padded[below] + padded[above]) / 2)


# SQuAD's exact match and F1, by the official definition.
_ARTICLES = re.compile(r"\b(a|an|the)\b")


_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def squad_scores(
    predictions: Sequence[str], answers: Any, version_2: bool | None = None
) -> dict[str, float]:
    """Compare predicted answers with the right ones.

    Case, ASCII punctuation, articles and runs of blanks are ignored. The score of a
    prediction is the best over the answers to a question: 1 for an exact match and 0
    otherwise, and the F1 of its words. Libraries with these scores depend on a deep
    learning framework or on downloads.

    Source: the evaluation scripts of [SQuAD](https://arxiv.org/abs/1606.05250) and
    [SQuAD 2.0](https://arxiv.org/abs/1806.03822).

    Args:
        predictions: Sequence of string, one per question; empty for "no answer".
        answers: The right answers, in any form that `read_answers` takes.
        version_2: bool. Whether to score as SQuAD 2.0's script does, where "no answer"
            may be right. Defaults to `None`: if a question has no answer.

    Returns:
        A dict of `exact_match` and `f1`, in percent, and `total`, the number of
        questions; with version 2 also these three for the questions with an answer, as
        `HasAns_exact_match` and so on, and without, as `NoAns_exact_match`, if there
        are any.

    Raises:
        ValueError: If the numbers of predictions and answers differ, or there are none.

    Example:
        >>> scores = squad_scores(
        ...     ["the Rome", "in 1848"], [(3, "Rome"), (9, "1848 AD")])
        >>> round(scores["exact_match"], 1), round(scores["f1"], 1)
        (50.0, 75.0)
    """
    rows = [[text for _, text in row] for row in read_answers(answers)]
    if len(rows) != len(predictions) or not rows:
        raise ValueError(
            "Each question needs its prediction and its answers. Received: "
            f"{len(predictions)} predictions and {len(rows)} answers."
        )
    if version_2 is None:
        version_2 = not all(rows)
    pairs = [
        question_scores(prediction, row, version_2)
        for prediction, row in zip(predictions, rows, strict=True)
    ]
    scores = _averages(pairs)
    if version_2:
        for name, answered in (("HasAns", True), ("NoAns", False)):
            of_kind = zip(pairs, rows, strict=True)
            part = [pair for pair, row in of_kind if bool(row) == answered]
            if part:
                averages = _averages(part).items()
                scores |= {f"{name}_{key}": value for key, value in averages}
    return scores


def question_scores(
    prediction: str, answers: Sequence[str], version_2: bool = True
) -> tuple[float, float]:
    """Return exact match and F1 of one answer; "" stands for "no answer"."""
    right = [normalize_answer(answer) for answer in answers]
    if version_2:
        # An answer that is empty after normalization does not count.
        right = [answer for answer in right if answer] or [""]
    given = normalize_answer(prediction)
    exact = max((float(given == answer) for answer in right), default=0.0)
    return exact, max((_f1(given, answer, version_2) for answer in right), default=0.0)


def normalize_answer(text: str) -> str:
    """Return a text in lower case, without ASCII punctuation and English articles."""
    bare = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", bare).split())


def _f1(given: str, right: str, version_2: bool) -> float:
    given_words, right_words = given.split(), right.split()
    if version_2 and not (given_words and right_words):
        return float(given_words == right_words)
    common = (Counter(given_words) & Counter(right_words)).total()
    if not common:
        return 0.0
    precision, recall = common / len(given_words), common / len(right_words)
    return 2 * precision * recall / (precision + recall)


def _averages(pairs: Sequence[tuple[float, float]]) -> dict[str, float]:
    exact, f1 = zip(*pairs, strict=True)
    return {
        "exact_match": 100 * sum(exact) / len(pairs),
        "f1": 100 * sum(f1) / len(pairs),
        "total": len(pairs),
    }
