import numpy as np
import pytest

from keras_albert.text.tasks.multiple_choice import check_answers, encode_answers


@pytest.mark.parametrize(
    "answers",
    [
        ["A", "D", "B"],
        ["a", "d", "b"],
        [b"A", "D", 1],
        [0, 3, 1],
        [0.0, 3.0, 1.0],
        np.array([0, 3, 1], np.uint8),
        np.array([[0], [3], [1]]),
        np.array(["A", "D", "B"]),
        [np.int64(0), 3, 1],
    ],
)
def test_numbers_and_letters(answers):
    encoded = encode_answers(answers)
    assert encoded.dtype == np.int32
    assert encoded.tolist() == [0, 3, 1]


@pytest.mark.parametrize(
    "wrong", [None, "", "AB", "1", -1, 0.5, float("nan"), True, []]
)
def test_invalid_answers_name_the_row(wrong):
    with pytest.raises(ValueError, match="Row 1 has the answer"):
        encode_answers(["A", wrong, "B"])


def test_negative_numbers_and_one_hot_raise():
    with pytest.raises(ValueError, match="Row 1 has the answer -2"):
        encode_answers(np.array([0, -2]))
    with pytest.raises(ValueError, match=r"answers of shape \(2, 3\)"):
        encode_answers(np.eye(3)[:2])


def test_answers_must_be_among_the_choices():
    check_answers(np.array([0, 1]), np.array([1, 2]))
    with pytest.raises(ValueError, match=r"Row 1 has the answer 30, and .* 2 choices"):
        check_answers(np.array([0, 30, 9]), np.array([1, 2, 1]))
