"""Searching the logits of windows for answers, inside an ONNX graph."""

from typing import Any

import numpy as np

# As `answer` has it by default.
_MAX_ANSWER_LENGTH = 30

# No log-probability, but that of a position that the model masks, is as low.
IMPOSSIBLE = -1e20


def search_spans(graph: Any, outputs: dict[str, Any], is_owned: Any) -> tuple[Any, ...]:
    """Do what `span_candidates` does in windows.

    Args:
        graph: An `OnnxQuestionAnswerer`.
        outputs: What the model computed.
        is_owned: bool `(windows, length)`. Where a window answers.

    Returns:
        The positions of starts, int64 `(windows, starts)`; the log-probabilities of the
        spans from there on, `(windows, starts, lengths)`; and how sure each window is
        that there is no answer, `(windows,)`.
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
    """Let spans reach behind the row, where none can end."""
    widths = [0] * (2 * rank - 1) + [_MAX_ANSWER_LENGTH - 1]
    return op.Pad(scores, widths, -np.inf)
