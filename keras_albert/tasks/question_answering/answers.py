"""Answers of questions, from the logits of windows, and SQuAD's scores of answers."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.preprocessors.question_answering import SpanWindows, read_answers
from keras_albert.types import FloatArray, Int64Array

# Windows that are searched at once, to limit memory.
_WINDOWS_AT_ONCE = 64

# Only the log-probability of a masked position is as low.
_IMPOSSIBLE = -1e20


@dataclass(frozen=True)
class SpanCandidates:
    """The likeliest answers of each question, and the least score of "no answer"."""

    starts: list[Int64Array]
    ends: list[Int64Array]
    scores: list[npt.NDArray[Any]]
    null_scores: npt.NDArray[Any]
    null_probabilities: npt.NDArray[Any]

    def best_texts(self, contexts: Sequence[str]) -> list[str]:
        """Return the most likely answer of each question; empty if there is none."""
        rows = zip(contexts, self.starts, self.ends, strict=True)
        return [
            text[starts[0] : ends[0]] if len(starts) else ""
            for text, starts, ends in rows
        ]


def span_candidates(
    outputs: Mapping[str, FloatArray],
    windows: SpanWindows,
    max_answer_length: int,
    n_best: int,
    end_n_top: int,
) -> SpanCandidates:
    """Search for answers, a start in the window with the most context around it."""
    length = outputs["start_logits"].shape[1]
    max_answer_length = min(max_answer_length, length)
    is_conditional = "answerability" in outputs
    found = []
    for begin in range(0, len(windows), _WINDOWS_AT_ONCE):
        part = slice(begin, begin + _WINDOWS_AT_ONCE)
        rows = np.arange(len(windows))[part]
        start_scores = _log_softmax(outputs["start_logits"][part])
        owned = windows.owned_positions(rows, length)
        masked = np.where(owned, start_scores, -np.inf)
        end_scores = _log_softmax(outputs["end_logits"][part])
        if is_conditional:
            # The starts that the model followed, in its order.
            order = np.argsort(-outputs["start_logits"][part], axis=1, kind="stable")
            starts = order[:, : end_scores.shape[1]]
            end_scores = end_scores[:, : starts.shape[1]]
            bands = _bands(end_scores, starts, max_answer_length)
            bands = _keep_largest(bands, end_n_top)
            masked = np.take_along_axis(masked, starts, axis=1)
            null = outputs["answerability"][part, 0].astype(np.float64)
        else:
            starts = np.arange(length)[None]
            bands = _bands(end_scores[:, None], starts, max_answer_length)
            null = start_scores[:, 0] + end_scores[:, 0]
        bands += masked[..., None]
        found.append((rows, *_largest(bands, starts, n_best), null))
    return _collect(windows, found, is_conditional)


def _log_softmax(logits: FloatArray) -> npt.NDArray[Any]:
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _bands(
    end_scores: npt.NDArray[Any], starts: Int64Array, width: int
) -> npt.NDArray[Any]:
    """Return the scores of the ends from each start on, `(windows, starts, width)`."""
    *shape, length = end_scores.shape
    padded = np.full((*shape, length + width - 1), -np.inf)
    padded[..., :length] = end_scores
    return np.take_along_axis(padded, starts[..., None] + np.arange(width), axis=-1)


def _keep_largest(scores: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    if count >= scores.shape[-1]:
        return scores
    least = np.partition(scores, -count, axis=-1)[..., -count, None]
    return np.where(scores >= least, scores, -np.inf)


def _largest(
    scores: npt.NDArray[Any], starts: Int64Array, count: int
) -> tuple[Int64Array, Int64Array, npt.NDArray[Any]]:
    """Return each window's best starts, ends and scores, `(windows, count)`."""
    width = scores.shape[-1]
    flat = scores.reshape(len(scores), -1)
    best = np.argpartition(-flat, min(count, flat.shape[1]) - 1, axis=1)[:, :count]
    first = np.take_along_axis(starts, best // width, axis=1)
    return first, first + best % width, np.take_along_axis(flat, best, axis=1)


def _collect(windows: SpanWindows, found: list[Any], is_logit: bool) -> SpanCandidates:
    """Join the candidates of the windows of each question."""
    count = len(windows.contexts.lengths)
    parts = zip(*found, strict=True)
    rows, first, last, scores, null = (np.concatenate(part) for part in parts)
    shift = (windows.begins - windows.offsets)[rows, None]
    questions = np.repeat(windows.questions[rows], first.shape[1])
    scores = scores.ravel()
    possible = scores > _IMPOSSIBLE
    questions, scores = questions[possible], scores[possible]
    starts, ends = windows.contexts.characters(
        questions, (first + shift).ravel()[possible], (last + shift).ravel()[possible]
    )
    # The piece of a blank, or of half a character, is no text.
    kept = np.flatnonzero(ends > starts)
    order = kept[np.lexsort((-scores[kept], questions[kept]))]
    cuts = np.searchsorted(questions[order], np.arange(count + 1))
    places = [order[begin:end] for begin, end in pairwise(cuts)]
    least = np.full(count, np.inf)
    np.minimum.at(least, windows.questions, null)
    if is_logit:
        null_scores, probabilities = least, 1 / (1 + np.exp(-least))
    else:
        best = [scores[place].max(initial=-np.inf) for place in places]
        null_scores, probabilities = least - best, np.exp(least)
    return SpanCandidates(
        [starts[place] for place in places],
        [ends[place] for place in places],
        [scores[place] for place in places],
        null_scores,
        probabilities,
    )


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
    """Return the answers to one question, and "no answer", the likeliest first."""
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
