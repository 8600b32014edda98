"""Entities from probabilities, and their scores."""

import numpy as np
import pytest

from keras_albert.tasks.token_classification.model import score_entities
from keras_albert.text.tags import (
    Span,
    describe_entity,
    find_entities,
    join_words,
    split_words,
)

NAMES = ("B-x", "I-x", "O")


def test_the_score_is_the_mean_over_words():
    rows = np.array(
        [[0.6, 0.2, 0.2], [0.1, 0.8, 0.1], [0.1, 0.2, 0.7], [0.2, 0.5, 0.3]]
    )
    found = find_entities(rows, np.full(4, True), NAMES)
    assert [span for span, _ in found] == [Span(0, 2, "x"), Span(3, 4, "x")]
    np.testing.assert_allclose([score for _, score in found], [0.7, 0.5])


def test_words_that_nobody_sees_neither_begin_nor_part_an_entity():
    rows = np.eye(3)[[0, 0, 1, 0]]
    found = find_entities(rows, np.array([False, True, False, False]), NAMES)
    assert found == [(Span(1, 2, "x"), 1.0)]
    assert find_entities(rows[:0], np.empty(0, bool), NAMES) == []
    assert find_entities(rows[:1], np.array([False]), NAMES) == []


def test_descriptions():
    raw = describe_entity(Span(1, 3, "x"), 0.5, split_words("in  New York!"))
    place = {"start": 4, "end": 12, "text": "New York"}
    assert raw == {"label": "x", "score": 0.5} | place
    words = describe_entity(Span(1, 3, "x"), 0.5, join_words(["in", "New", "York"]))
    assert words["text"] == "New York"
    assert (words["start"], words["start_word"], words["end_word"]) == (3, 1, 3)


def test_bounds_and_label_must_be_right():
    pytest.importorskip("seqeval")
    truth = [[Span(0, 2, "a"), Span(2, 3, "b"), Span(5, 6, "a")], []]
    found = [[Span(0, 1, "a"), Span(2, 3, "b"), Span(5, 6, "b")], [Span(0, 1, "c-d")]]
    scores = score_entities(truth, found)
    assert scores["precision"] == pytest.approx(1 / 4)
    assert scores["recall"] == pytest.approx(1 / 3)
    assert scores["f1"] == pytest.approx(2 / 7)
    assert scores["support"] == 3
    assert scores["labels"]["b"]["precision"] == 0.5
    assert set(scores["labels"]["c-d"].values()) == {0}
    assert score_entities([[], []], [[], []])["f1"] == 0.0
