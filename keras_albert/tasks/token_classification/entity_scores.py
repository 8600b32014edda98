"""Precision, recall and F1 of whole entities, with the library seqeval."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from keras_albert.text.tag_schemes import Span, spans_to_tags
from keras_albert.utils.packages import check_packages


def score_entities(
    expected: Sequence[Sequence[Span]], predicted: Sequence[Sequence[Span]]
) -> dict[str, Any]:
    """Score entities as CoNLL's shared tasks do: bounds and label must both be right.

    `precision`, `recall`, `f1` and `support` of all, and in `labels` the same for each
    label.

    Source: [Nakayama, 2018](https://github.com/chakki-works/seqeval), which agrees with
    `conlleval`.
    """
    pairs = list(zip(expected, predicted, strict=True))
    ends = [
        max((span.end for row in pair for span in row), default=0) for pair in pairs
    ]
    rows = [
        [spans_to_tags(spans, end) for spans, end in zip(side, ends, strict=True)]
        for side in (expected, predicted)
    ]
    check_packages("Scoring entities", "seqeval", "seqeval")
    metrics = import_module("seqeval.metrics")
    if not any(ends):
        # seqeval cannot average over no labels.
        nothing = {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 0}
        return nothing | {"labels": {}}
    report = metrics.classification_report(*rows, output_dict=True, zero_division=0)
    scores = {name: _plain(row) for name, row in report.items()}
    averages = ("micro avg", "macro avg", "weighted avg")
    labels = {name: row for name, row in scores.items() if name not in averages}
    return scores["micro avg"] | {"labels": labels}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "precision": float(row["precision"]),
        "recall": float(row["recall"]),
        "f1": float(row["f1-score"]),
        "support": int(row["support"]),
    }
