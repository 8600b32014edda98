"""From the probabilities of words' tags to entities for a person to read."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.text.token_classification.tag_schemes import Span, tags_to_spans
from keras_albert.text.token_classification.words import WordRow


def find_entities(
    probabilities: npt.NDArray[Any],
    is_seen: npt.NDArray[np.bool_],
    names: Sequence[str],
) -> list[tuple[Span, float]]:
    """Read the entities of one document off its words' likeliest tags.

    A word that the model does not see parts no entity and begins none.

    Args:
        probabilities: Array `(words, tags)`.
        is_seen: bool array `(words,)`.
        names: The names of the tags.

    Returns:
        The entities in words, each with the mean probability of its tags.

    Example:
        >>> find_entities(np.eye(3)[[0, 0, 1, 2]], np.array([1, 0, 1, 1]) > 0,
        ...               ("B-place", "I-place", "O"))
        [(Span(start=0, end=3, label='place'), 1.0)]
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
    """Find the characters of an entity.

    Args:
        span: The entity, in words.
        words: The words.

    Returns:
        The entity, in characters of their text.
    """
    start, end = words.starts[span.start], words.ends[span.end - 1]
    return Span(int(start), int(end), span.label)


def describe_entity(span: Span, score: float, words: WordRow) -> dict[str, Any]:
    """Describe an entity as users read it.

    Args:
        span: The entity, in words.
        score: float. Its probability.
        words: The words.

    Returns:
        A dict of `label`, `score`, `start`, `end` and `text`; of given words also of
        `start_word` and `end_word`.
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
