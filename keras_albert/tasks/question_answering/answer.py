"""Answers from candidates, and the threshold of "no answer"."""

import unicodedata
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.tasks.question_answering.span_search import SpanCandidates

# In place of an infinite score, if there is no candidate.
_SURE = 1e9


# Where a context has nothing to read.
NO_ANSWER: dict[str, Any] = {"answer": "", "score": 1.0, "start": 0, "end": 0}

# Such contexts, see `is_invisible`, for the graphs of exports.
INVISIBLE = r"[\p{Z}\p{M}\p{Cc}\p{Cf}]*"


def is_invisible(text: str) -> bool:
    """Return whether a text has no visible character: blanks, controls, marks alone."""
    kinds = {unicodedata.category(character) for character in set(text)}
    return all(kind in ("Cc", "Cf") or kind[0] in "ZM" for kind in kinds)


def rank_answers(
    found: SpanCandidates, row: int, context: str, null_threshold: float | None
) -> list[dict[str, Any]]:
    """Return the answers to one question, "no answer" too, the most likely first.

    Dicts of `answer`, `score`, `start` and `end`.
    """
    spans = zip(found.starts[row], found.ends[row], found.scores[row], strict=True)
    ranked = [
        _describe(context, int(start), int(end), float(np.exp(score)))
        for start, end, score in spans
    ]
    if null_threshold is None and ranked:
        return ranked
    probability = float(found.null_probabilities[row])
    nothing = _describe(context, 0, 0, probability)
    if not ranked or found.null_scores[row] > null_threshold:
        return [nothing, *ranked]
    place = sum(answer["score"] >= probability for answer in ranked)
    ranked.insert(max(1, place), nothing)
    return ranked


def _describe(context: str, start: int, end: int, score: float) -> dict[str, Any]:
    text = context[start:end]
    return {"answer": text, "score": score, "start": start, "end": end}


def best_null_threshold(
    null_scores: npt.NDArray[np.float64],
    answered: npt.NDArray[np.float64],
    unanswered: npt.NDArray[np.float64],
) -> float:
    """Choose the threshold with the best average score.

    Arrays have one value per question: the scores of "no answer", and what the answer
    and "no answer" are worth; above the threshold there is none.
    """
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
