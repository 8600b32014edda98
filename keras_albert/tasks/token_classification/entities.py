"""Entities, from the probabilities of words' tags."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.text.tag_schemes import Span, tags_to_spans
from keras_albert.text.tasks.token_classification import WordRow


def find_entities(
    probabilities: npt.NDArray[Any],
    is_seen: npt.NDArray[np.bool_],
    names: Sequence[str],
) -> list[tuple[Span, float]]:
    """Return the entities of one document by the most likely tags of its words.

    Words without pieces are skipped: they neither split nor begin an entity. The score
    of an entity is the mean probability of its tags.
    """
    seen = np.flatnonzero(is_seen)
    best = probabilities[seen].argmax(axis=-1)
    scores = probabilities[seen, best]
    entities = []
    for start, end, label in tags_to_spans([names[tag] for tag in best]):
        span = Span(int(seen[start]), int(seen[end - 1]) + 1, label)
        entities.append((span, float(scores[start:end].mean())))
    return entities


def span_in_characters(span: Span, words: WordRow) -> Span:
    """Return an entity, given in words, in characters of the text."""
    start, end = words.starts[span.start], words.ends[span.end - 1]
    return Span(int(start), int(end), span.label)


def describe_entity(span: Span, score: float, words: WordRow) -> dict[str, Any]:
    """Return a readable description of an entity.

    It has `label`, `score`, `start`, `end` and `text`; for passed words `start_word`
    and `end_word`, too.
    """
    start, end, label = span_in_characters(span, words)
    entity: dict[str, Any] = {
        "label": label,
        "score": score,
        "start": start,
        "end": end,
        "text": words.text[start:end],
    }
    if not words.is_raw:
        entity.update(start_word=span.start, end_word=span.end)
    return entity
