"""Questions with choices: reading, targets and rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text.choices import (
    ChoiceRows,
    check_answers,
    choice_columns,
    encode_answers,
)
from keras_albert.text.packing import SpecialIds, TokenRows

CLS, SEP, PAD = 2, 3, 0


ids = st.lists(st.integers(5, 99), max_size=12)


def expected_row(text, choice, max_length, max_choice_length):
    """Pack one row by the reference's rule."""
    tail = choice[-min(max_choice_length, max_length - 4) :]
    head = text[: max_length - 3 - len(tail)]
    return [CLS, *head, SEP, *tail, SEP], [0] * (len(head) + 2) + [1] * (len(tail) + 1)


@settings(max_examples=80, deadline=None)
@given(
    texts=st.lists(ids, min_size=1, max_size=3),
    questions=st.lists(
        st.tuples(st.integers(0, 2), st.lists(ids, min_size=1, max_size=4)), max_size=5
    ),
    max_length=st.integers(5, 20),
    max_choice_length=st.integers(1, 9),
    seed=st.integers(0, 9),
)
def test_packs_as_the_reference(texts, questions, max_length, max_choice_length, seed):
    numbers = [number % len(texts) for number, _ in questions]
    choices = [choices for _, choices in questions]
    rows = ChoiceRows(
        TokenRows.from_lists(texts),
        np.array(numbers, np.int64),
        TokenRows.from_lists([choice for row in choices for choice in row]),
        np.array([len(row) for row in choices], np.int64),
        SpecialIds(CLS, SEP, PAD),
        max_length,
        max_choice_length,
    )
    assert len(rows) == len(rows.lengths) == len(questions)
    picked = np.random.default_rng(seed).permutation(len(questions))[:3]
    length = int(rows.lengths[picked].max(initial=5))
    packed = rows.pack(picked, length)
    most = max((len(choices[i]) for i in picked), default=1)
    assert {box.shape for box in packed.values()} == {(len(picked), most, length)}
    for place, question in enumerate(picked):
        longest = 0
        for number in range(most):
            box = {name: values[place, number] for name, values in packed.items()}
            if number >= len(choices[question]):
                assert not any(values.any() for values in box.values())
                continue
            row, segments = expected_row(
                texts[numbers[question]],
                choices[question][number],
                max_length,
                max_choice_length,
            )
            padding = [PAD] * (length - len(row))
            assert box["token_ids"].tolist() == row + padding
            assert box["segment_ids"].tolist() == segments + padding
            assert box["padding_mask"].sum() == len(row)
            longest = max(longest, len(row))
        assert rows.lengths[question] == longest


COLUMNS = (["c", "d"], ["q", "r"], [["x", "y"], ["z"]])


WITHOUT = COLUMNS[1:]


@pytest.mark.parametrize("columns", [COLUMNS, WITHOUT])
def test_all_types_are_equal(columns):
    rows = list(zip(*columns, strict=True))
    forms = [
        columns,
        rows,
        tuple(np.array(column, object) for column in columns),
        (*columns[:-1], tuple(np.array(row) for row in columns[-1])),
    ]
    for form in forms:
        assert choice_columns(form) == (columns, True)
    single = tuple([column[0]] for column in columns)
    assert choice_columns(rows[0]) == (single, False)


def test_arrays_and_other_sequences():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"q": ["q", "r"], "choices": [["x", "y"], ["z", "w"]]})
    read, _ = choice_columns((table["q"], table["choices"]))
    assert read == (["q", "r"], [["x", "y"], ["z", "w"]])
    square = np.array([[b"x", b"y"], [b"z", b"w"]], object)
    assert choice_columns((["q", "r"], square)) == (read, True)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ("a", "Received: str of 1"),
        (("a",), "Received: tuple of 1"),
        (("a", "b", ["c"], "d"), "Received: tuple of 4"),
        (["a"], "Received: list of 1"),
        ((["q", "r"], [["x"], []]), "Row 1 has no choices. Give it at least one"),
        ((["q", "r"], [["x"], ["y", " "]]), "Choice 1 of row 1 is empty"),
        ((["q", "r"], [["x"], ["y", None]]), "row 1 of the choices of row 1 is None"),
        ((["q", "r"], [["x"], "yz"]), "The choices of row 1 are 'yz'. Pass a list"),
        ((["q", "r"], [["x"], None]), "The choices of row 1 are None"),
        ((["q", "r"], "xy"), "The choices of row 0 are 'x'"),
        ((["q", None], [["x"], ["y"]]), "row 1 of questions is None"),
        ((["c", None], ["q", "r"], [["x"]] * 2), "row 1 of contexts is None"),
        ((["q", "r"], [["x"]]), "Received: 2 questions, 1 lists of choices"),
        (("c", ["q", "r"], [["x"]] * 2), "1 contexts, 2 questions"),
        ([("q", ["x"]), ("c", "q", ["x"])], "but row 0 is a tuple of 2"),
    ],
)
def test_errors_describe_the_problem(x, message):
    with pytest.raises((ValueError, TypeError), match=message):
        choice_columns(x)


@pytest.mark.parametrize(
    "answers",
    [
        *(["A", "D", "B"], ["a", "d", "b"], [b"A", "D", 1], [0, 3, 1], [0.0, 3.0, 1.0]),
        *(np.array([0, 3, 1], np.uint8), np.array([[0], [3], [1]])),
        *(np.array(["A", "D", "B"]), [np.int64(0), 3, 1]),
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
    with pytest.raises(ValueError, match=r"Row 1 has the answer 30, but .* 2 choices"):
        check_answers(np.array([0, 30, 9]), np.array([1, 2, 1]))
