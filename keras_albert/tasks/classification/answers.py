"""The answers of a classifier: names of classes and scores."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_albert.types import FloatArray, Int64Array
from keras_albert.utils.arguments import check_positive


def count_answers(classifier: Any, top_k: int | None) -> int:
    """Check `top_k`, and return how many classes of each text to name."""
    if top_k is None:
        return int(classifier.num_classes) if classifier.is_multi_label else 1
    check_positive(top_k=top_k)
    return top_k


def describe_outputs(
    classifier: Any, outputs: FloatArray, top_k: int, depths: Int64Array | None = None
) -> list[Any]:
    """Return the answers of `AlbertClassifier.classify`, one for each text."""
    if classifier.is_regression:
        top_k = 1
        ranked = [[{"score": float(score)}] for score in outputs[:, 0]]
    else:
        scores = classifier.probabilities(outputs)
        ranked = rank_classes(scores, classifier.class_names, top_k)
    if depths is not None:
        for answers, depth in zip(ranked, depths.tolist(), strict=True):
            for answer in answers:
                answer["depth"] = depth
    return ranked if top_k > 1 else [answers[0] for answers in ranked]


def rank_classes(
    scores: FloatArray, names: Sequence[str], top_k: int
) -> list[list[dict[str, Any]]]:
    """Name the most likely classes of each text."""
    best = np.argsort(-scores, axis=-1, kind="stable")[:, :top_k]
    return [
        [{"label": names[i], "score": float(row[i])} for i in order]
        for row, order in zip(scores, best, strict=True)
    ]
