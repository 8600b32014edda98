"""Searching for answers in the logits of windows, in an ONNX graph."""

from typing import Any

import numpy as np

# The default of `answer`.
_MAX_ANSWER_LENGTH = 30

# Only positions that the model masks have log-probabilities as low as this.
IMPOSSIBLE = -1e20


def search_spans(graph: Any, outputs: dict[str, Any], is_owned: Any) -> tuple[Any, ...]:
    """Score spans in windows, as `span_candidates` does.

    Args:
        graph: An `OnnxQuestionAnswerer`.
        outputs: The outputs of the model.
        is_owned: bool `(windows, length)`. Whether the window predicts the token at a
            position; overlaps belong to one window.

    Returns:
        The start positions, int64 `(windows, starts)`; the log-probabilities of the
        spans from there, `(windows, starts, lengths)`; and each window's score for "no
        answer", `(windows,)`.
    """
    op, builder, task = graph.op, graph.builder, graph.task
    logits = outputs["start_logits"]
    start_scores = op.LogSoftmax(logits, axis=-1)
    end_scores = op.LogSoftmax(outputs["end_logits"], axis=-1)
    masked = op.Where(is_owned, start_scores, -np.inf)
    steps = op.Range(0, _MAX_ANSWER_LENGTH, 1)
    if task.head == "conditional":
        starts = graph.likeliest(logits)
        ends = _pad(op, end_scores, 3)
        bands = op.GatherElements(
            ends, op.Add(op.Unsqueeze(starts, [2]), steps), axis=2
        )
        count = min(task.end_n_top, _MAX_ANSWER_LENGTH)
        largest, _ = op.TopK(bands, [count], _outputs=2)
        least = op.Slice(largest, [-1], [2**31], [2])
        bands = op.Where(op.GreaterOrEqual(bands, least), bands, -np.inf)
        null = op.Squeeze(outputs["answerability"], [1])
    else:
        place = op.Range(0, op.Squeeze(builder.size(logits, 1)), 1)
        starts = op.Expand(op.Unsqueeze(place, [0]), op.Shape(logits))
        at = op.Add(op.Unsqueeze(place, [1]), steps)
        bands = op.Gather(_pad(op, end_scores, 2), at, axis=1)
        both = op.Add(start_scores, end_scores)
        null = op.Gather(both, 0, axis=1)
    chosen = op.Unsqueeze(op.GatherElements(masked, starts, axis=1), [2])
    scores = op.Add(chosen, bands)
    impossible = op.LessOrEqual(scores, IMPOSSIBLE)
    return starts, op.Where(impossible, -np.inf, scores), null


def _pad(op: Any, scores: Any, rank: int) -> Any:
    """Pad the scores so that spans past the end of the row are impossible."""
    widths = [0] * (2 * rank - 1) + [_MAX_ANSWER_LENGTH - 1]
    return op.Pad(scores, widths, -np.inf)
