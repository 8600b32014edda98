"""Tags and entities as people have them, as numbers."""

import numpy as np
import pytest

from keras_albert.tasks.token_classification.read_targets import (
    encode_spans,
    encode_tags,
    holds_spans,
    learn_tags,
    read_tag_numbers,
    read_tag_rows,
)
from tests.one_backend import on_one_backend

pytestmark = on_one_backend

NAMES = ("B-x", "I-x", "O")
X = {"start": 2, "end": 5, "label": "x"}


def test_rows_in_many_forms():
    rows = read_tag_rows((("O", b"B-x"), np.array(["O"]), [], np.array([1, 2])))
    assert rows[:3] == [["O", "B-x"], ["O"], []]
    assert rows[3].tolist() == [1, 2]
    assert not holds_spans(rows)
    assert holds_spans([[], [X]])


def test_names_or_numbers():
    encoded = encode_tags([["O", "B-x"], [0, 1], []], 3, NAMES, "BIO")
    assert [row.tolist() for row in encoded] == [[2, 0], [0, 1], []]
    assert all(row.dtype == np.int32 for row in encoded)


def test_learned_names():
    assert learn_tags([["O", "B-y"], ["B-x"]], "auto") == (("B-x", "B-y", "O"), "BIO")
    assert learn_tags([[0, 1]], "auto") == ((), "IO")
    names = ("B-x", "E-x", "I-x", "O", "S-x")
    assert learn_tags([[], [X]], "BIOES") == (names, "BIOES")


def test_entities_know_their_tags():
    names = ("B-x", "E-x", "I-x", "O", "S-x")
    (target,) = encode_spans([[X]], names, "BIOES")
    assert target.spans.tolist() == [[2, 5]]
    assert (target.tags.tolist(), target.outside) == ([[4, 0, 2, 1]], 3)
    # Once more changes nothing: `fit` may split off validation data in between.
    assert encode_spans([target], names, "BIOES") == [target]
    (target,) = encode_spans([[X]], ("B-x", "O"), "BIO")
    assert target.tags.tolist() == [[0, 0, -1, -1]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([["O"], ["O", "B-z"]], r"Row 1 of the targets: Word 1 has the label 'B-z'"),
        ([[3]], r"Row 0 of the targets: Word 0 has the label 3. The model has"),
        ([["O", None]], r"Row 0 of the targets: Word 1 has the label None"),
        ([[2, 1]], r"Row 0, word 1, has the tag 'I-x' after 'O'"),
    ],
)
def test_wrong_tags_are_named(rows, message):
    with pytest.raises(ValueError, match=message):
        encode_tags(rows, 3, NAMES, "BIO")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[], [X, {"start": 1}]], "Row 1, entity 1, is {'start': 1}"),
        ([[X | {"end": 2}]], "Row 0, entity 0, .* the end above the start"),
        ([[X | {"start": -1}]], "Row 0, entity 0"),
        ([[X | {"start": "0"}]], "Row 0, entity 0, .* whole numbers"),
        ([[X | {"end": 22.7}]], "Row 0, entity 0, .* whole numbers"),
        ([[X | {"label": ""}]], "Row 0, entity 0"),
        ([[X, "O"]], "Row 0, entity 1, is 'O'"),
        ([[X | {"label": "z"}]], "entity 0, is labelled 'z'.*'B-z'.*B-x, I-x, O"),
    ],
)
def test_wrong_entities_are_named(rows, message):
    with pytest.raises(ValueError, match=message):
        encode_spans(rows, NAMES, "BIO")


def test_entities_need_a_tag_for_the_others():
    with pytest.raises(ValueError, match="need the tag 'O'"):
        encode_spans([[X]], ("B-x", "I-x"), "BIO")


@pytest.mark.parametrize("y", [None, "BIO", 3, ["O"], [["O"], None]])
def test_what_is_no_list_for_each_text(y):
    with pytest.raises(ValueError, match=r"[Tt]argets"):
        read_tag_rows(y)


def test_numbers_of_ids():
    assert read_tag_numbers([[0, 1]], 2).dtype == np.int32
    with pytest.raises(ValueError, match="Row 1 of the targets holds a tag outside 0"):
        read_tag_numbers([[0, 1], [-100, 1]], 2)
    with pytest.raises(ValueError, match=r"\(examples, tokens\).*int64 \(2,\)"):
        read_tag_numbers(np.array([0, 1]), 2)
