"""From which odds on a question counts as one without an answer."""

import numpy as np
import numpy.typing as npt

# Stands in for a score that is infinite: nothing at all was found.
_SURE = 1e9


def best_null_threshold(
    null_scores: npt.NDArray[np.float64],
    answered: npt.NDArray[np.float64],
    unanswered: npt.NDArray[np.float64],
) -> float:
    """Choose the threshold with the best average score.

    Args:
        null_scores: float array `(questions,)`. How sure it is that there is no
            answer.
        answered: float array `(questions,)`. What the model's answer is worth.
        unanswered: float array `(questions,)`. What "no answer" is worth.

    Returns:
        The threshold, halfway between two questions; "no answer" is said above it.

    Example:
        >>> best_null_threshold(
        ...     np.array([3.0, -1.0, 1.0]), np.array([0.0, 1.0, 0.5]),
        ...     np.array([1.0, 0.0, 0.0]))
        2.0
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
