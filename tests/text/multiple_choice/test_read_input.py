import numpy as np
import pytest

from keras_albert.text.tasks.multiple_choice import choice_columns

COLUMNS = (["c", "d"], ["q", "r"], [["x", "y"], ["z"]])
WITHOUT = COLUMNS[1:]


def as_dicts(columns):
    names = ("context", "question", "choices")[-len(columns) :]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


@pytest.mark.parametrize("columns", [COLUMNS, WITHOUT])
def test_all_types_are_equal(columns):
    names = ("context", "question", "choices")[-len(columns) :]
    rows = list(zip(*columns, strict=True))
    forms = [
        columns,
        as_dicts(columns),
        rows,
        dict(zip(names, columns, strict=True)),
        tuple(np.array(column, object) for column in columns),
        (*columns[:-1], tuple(np.array(row) for row in columns[-1])),
    ]
    for form in forms:
        assert choice_columns(form) == (columns, True)
    single = tuple([column[0]] for column in columns)
    for form in (rows[0], as_dicts(columns)[0]):
        assert choice_columns(form) == (single, False)


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
        ("a", "Received: str"),
        (("a",), "Received: a tuple of 1"),
        (("a", "b", ["c"], "d"), "Received: a tuple of 4"),
        (["a"], "Row 0 is 'a'. Pass a dict"),
        ((["q", "r"], [["x"], []]), "Row 1 has no choices. Give it at least one"),
        ((["q", "r"], [["x"], ["y", " "]]), "Choice 1 of row 1 is empty"),
        ((["q", "r"], [["x"], ["y", None]]), "row 1 of the choices of row 1 is None"),
        ((["q", "r"], [["x"], "yz"]), "The choices of row 1 are 'yz'. Pass a list"),
        ((["q", "r"], [["x"], None]), "The choices of row 1 are None"),
        ((["q", "r"], "xy"), "one list a question. Received: str"),
        ((["q", "r"], 5), "one list a question. Received: int"),
        ((["q", None], [["x"], ["y"]]), "row 1 of questions is None"),
        ((["c", None], ["q", "r"], [["x"]] * 2), "row 1 of contexts is None"),
        ((["q", "r"], [["x"]]), "Received: 2 questions, 1 lists of choices"),
        (("c", ["q", "r"], [["x"]] * 2), "1 contexts, 2 questions"),
        ([{"question": "q"}], "Row 0 has no 'choices'; it has 'question'"),
        ({"choices": ["x"]}, "`x` has no 'question'"),
        (
            [as_dicts(WITHOUT)[0], as_dicts(COLUMNS)[1]],
            "Row 1 has a context, and row 0 has no context",
        ),
    ],
)
def test_errors_describe_the_problem(x, message):
    with pytest.raises((ValueError, TypeError), match=message):
        choice_columns(x)
