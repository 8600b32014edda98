import math

import pytest

from keras_albert.tasks.question_answering.answers import (
    normalize_answer,
    question_scores,
    squad_scores,
)
from tests.one_backend import on_one_backend

pytestmark = on_one_backend


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Answer!", "answer"),
        ("an apple a day", "apple day"),
        ("theory of Anna", "theory of anna"),
        # Dashes of ASCII go without a space, others stay.
        ("state-of-the-art", "stateoftheart"),
        ("1990–1995", "1990–1995"),  # noqa: RUF001
        ("a.m.", "am"),
        ("the", ""),
        ("Ünï  code\u00a0x", "ünï code x"),
    ],
)
def test_what_does_not_count(text, expected):
    assert normalize_answer(text) == expected


@pytest.mark.parametrize(
    ("given", "right", "exact", "f1"),
    [
        ("Denver Broncos", ["the Denver Broncos!"], 1, 1),
        ("Broncos", ["Denver Broncos"], 0, 2 / 3),
        ("Denver Denver", ["Denver Broncos"], 0, 0.5),
        ("Carolina", ["Denver Broncos"], 0, 0),
        ("Denver", ["Denver Broncos", "Denver"], 1, 1),
        ("", ["Denver"], 0, 0),
        ("", [], 1, 1),
        ("Denver", [], 0, 0),
        # In version 2 "the" is nothing, and so the same as no answer.
        ("the", [], 1, 1),
        ("", ["the"], 1, 1),
    ],
)
def test_of_one_question(given, right, exact, f1):
    found = question_scores(given, right)
    assert found[0] == exact
    assert math.isclose(found[1], f1)


def test_version_1_knows_no_empty_answers():
    assert question_scores("the", ["a"], version_2=False) == (1.0, 0.0)
    assert question_scores("x", [], version_2=False) == (0.0, 0.0)


def test_averages_by_kind():
    answers = [{"text": ["b c"], "answer_start": [0]}, None, None]
    scores = squad_scores(["b", "", "x"], answers)
    assert scores["exact_match"] == pytest.approx(100 / 3)
    assert scores["f1"] == pytest.approx(100 * (2 / 3 + 1) / 3)
    assert scores["HasAns_f1"] == pytest.approx(200 / 3)
    assert scores["NoAns_exact_match"] == 50
    assert (scores["total"], scores["HasAns_total"], scores["NoAns_total"]) == (3, 1, 2)


def test_answered_questions_alone_are_version_1():
    assert set(squad_scores(["b"], [(0, "b")])) == {"exact_match", "f1", "total"}
    assert squad_scores(["b"], [(0, "b")], version_2=True)["HasAns_f1"] == 100


@pytest.mark.parametrize(("given", "right"), [([], []), (["a"], [None, None])])
def test_counts_must_agree(given, right):
    with pytest.raises(ValueError, match="its prediction and its answers"):
        squad_scores(given, right)
