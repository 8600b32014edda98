"""Texts and pairs of all types; errors name the row."""

import math

import numpy as np
import pytest

from keras_albert.text.reading import (
    are_texts,
    is_graph_text,
    text_columns,
    to_text_rows,
)

PAIRS = (["a", "c"], ["b", "d"])


@pytest.mark.parametrize(
    ("given", "columns", "batched"),
    [
        ("a", (["a"],), False),
        ("né".encode(), (["né"],), False),
        (["a", b"b"], (["a", "b"],), True),
        ([], ([],), True),
        ((), ([],), True),
        (("a",), (["a"],), False),
        (("a", "b"), (["a"], ["b"]), False),
        (("a", b"b"), (["a"], ["b"]), False),
        (PAIRS, PAIRS, True),
        (([], []), ([], []), True),
        ([("a", "b"), ("c", "d")], PAIRS, True),
        ([("a",), ("b",)], (["a", "b"],), True),
        (np.array(["a", "c"]), (["a", "c"],), True),
        (np.array([["a", "b"], ["c", "d"]]), PAIRS, True),
        (np.array([["a", "b"], ["c", "d"]], object), PAIRS, True),
        (np.array([["a"], ["c"]]), (["a", "c"],), True),
        (np.empty((0, 2), "<U1"), ([], []), True),
        ((np.array(["a", "c"]), ["b", "d"]), PAIRS, True),
    ],
)
def test_reads_all_types(given, columns, batched):
    assert text_columns(given) == (columns, batched)


def test_reads_string_tensors():
    tf = pytest.importorskip("tensorflow")
    assert text_columns(tf.constant("é")) == ((["é"],), False)
    assert text_columns(tf.constant(["a", "c"])) == ((["a", "c"],), True)
    pair = (tf.constant(["a", "c"]), tf.constant(["b", "d"]))
    assert text_columns(pair) == (PAIRS, True)
    assert text_columns(tf.constant([["a", "b"], ["c", "d"]])) == (PAIRS, True)


def test_reads_pandas():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"first": ["a", "c"], "second": ["b", "d"]}, index=[7, 3])
    assert text_columns(frame["first"]) == ((["a", "c"],), True)
    assert text_columns((frame["first"], frame["second"])) == (PAIRS, True)
    frame.loc[3, "second"] = None
    with pytest.raises(ValueError, match="row 1 of second texts is"):
        text_columns((frame["first"], frame["second"]))
    with pytest.raises(TypeError, match="by the names of its columns"):
        text_columns(frame)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((["a", "c"], ["b"]), "as many first texts as second ones. Received: 2 and 1"),
        ((["a"], "b"), "as second ones. Received: 1 and a single text"),
        ((["a"], ["b"], ["c"]), "3 texts for each example. Join"),
        (("a", "b", "c"), "3 texts for each example. Join"),
        (np.array([["a", "b", "c"]]), "3 texts for each example. Join"),
        ([("a", "b"), ("c",)], r"Row 1 of the texts is \('c',\), but row 0"),
        ([("a", "b"), "c"], "Row 1 of the texts is 'c', but row 0"),
        (["a", ("b", "c")], r"row 1 of texts is \('b', 'c'\) \(tuple\)"),
        ([["a", "b"], ["c", "d"]], r"row 0 of texts is \['a', 'b'\] \(list\)"),
        (["a", None], "row 1 of texts is None; .*fillna"),
        (np.array(["a", np.nan], object), "row 1 of texts is nan"),
        ((["a", "b"], ["c", None]), "row 1 of second texts is None"),
        (([None], ["c"]), "row 0 of first texts is None"),
        ([("a", "b"), ("c", 4.5)], "row 1 of second texts is 4.5"),
        (("a", None), "`second texts` must be texts"),
        (np.arange(3), r"row 0 of texts is 0 \(int\), not a text"),
    ],
)
def test_invalid_input_names_the_row(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        text_columns(given)


@pytest.mark.parametrize("given", [None, 3, {"text": ["a"]}, {"a", "b"}, iter(["a"])])
def test_other_types_raise(given):
    with pytest.raises(TypeError, match=r"must be texts.*Received: "):
        text_columns(given)


def test_texts_are_told_from_labels():
    texts = [
        "a",
        b"a",
        ["a"],
        ("a",),
        np.array(["a"]),
        np.array([b"a"], "O"),
        [[["a"]]],
    ]
    assert all(map(are_texts, texts))
    labels = [1, [1], [], (), None, np.array([1, 2]), np.array([], "O")]
    assert not any(map(are_texts, [*labels, np.array([1], "O")]))


def test_are_texts_of_tensors():
    tf = pytest.importorskip("tensorflow")
    assert are_texts(tf.constant(["a"]))
    assert not are_texts(tf.constant([1]))


def test_only_symbolic_tensors_are_graph_text():
    assert not is_graph_text("a")
    tf = pytest.importorskip("tensorflow")
    seen = []

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string)])
    def trace(text):
        seen.extend([is_graph_text(text), is_graph_text(("a", text))])
        return text

    trace(tf.constant(["a"]))
    assert seen == [True, True]
    assert not is_graph_text(tf.constant(["a"]))


class FakeTensor:
    """The interface of a string tensor of any library."""

    def __init__(self, value):
        self.value = value

    def numpy(self):
        return self.value


class FakeSeries:
    """The interface of a pandas Series."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, object)


@pytest.mark.parametrize(
    ("given", "rows", "batched"),
    [
        ("a", ["a"], False),
        ("café".encode(), ["café"], False),
        ("", [""], False),
        ([], [], True),
        (["a", b"b", np.str_("c")], ["a", "b", "c"], True),
        (("a", "b"), ["a", "b"], True),
        (np.array(["é", "b"]), ["é", "b"], True),
        (np.array([b"a", "é".encode()]), ["a", "é"], True),
        (np.array(["a", b"b"], object), ["a", "b"], True),
        (np.array("a"), ["a"], False),
        (np.str_("a"), ["a"], False),
        (FakeTensor(b"a"), ["a"], False),
        (FakeTensor(np.array([b"a", b"b"], object)), ["a", "b"], True),
        ([FakeTensor(b"a"), "b"], ["a", "b"], True),
        (FakeSeries(["a", "b"]), ["a", "b"], True),
    ],
)
def test_rows_of_all_types(given, rows, batched):
    result = to_text_rows(given)
    assert result == (rows, batched)
    assert all(type(row) is str for row in result[0])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (None, "row 3 of questions is None.*fill it with an empty string"),
        (math.nan, "row 3 of questions is nan.*Drop"),
        (np.float32("nan"), "row 3 of questions is nan"),
        (5, r"row 3 of questions is 5 \(int\), not a text.*str"),
        (True, r"row 3 of questions is True \(bool\)"),
        (["x"], r"row 3 of questions is \['x'\] \(list\), not a text. Join its words"),
        (np.array(["x"]), r"row 3 of questions is array\(.*\(ndarray\)"),
        (b"ab\xff", "row 3 of questions is not UTF-8: byte 0xff at offset 2.*latin-1"),
        ("ab\ud83d", r"row 3 of questions has a lone surrogate, U\+D83D, at char.* 2"),
    ],
)
def test_errors_name_the_row_and_the_remedy(row, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        to_text_rows(["a", "é", "c", row], "questions")


def test_rank_2_raises():
    with pytest.raises(ValueError, match=r"shape \(1, 2\).*one column at a time"):
        to_text_rows(np.array([["a", "b"]]))
