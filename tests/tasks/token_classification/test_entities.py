"""Scores of entities."""

import pytest

from keras_albert.tasks.token_classification.model import score_entities
from keras_albert.text.tags import Span
from tests.one_backend import on_one_backend

pytestmark = on_one_backend


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
