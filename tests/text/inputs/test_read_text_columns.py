import numpy as np
import pytest

from keras_albert.text.reading import (
    holds_text,
    is_graph_text,
    text_columns,
)

PAIRS = (["a", "c"], ["b", "d"])


@pytest.mark.parametrize(
    ("given", "columns", "batched"),
    [
        ("a", (["a"],), False),
        ("", ([""],), False),
        ("né".encode(), (["né"],), False),
        (np.str_("a"), (["a"],), False),
        (np.array("a"), (["a"],), False),
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
        (np.array([b"a", b"c"]), (["a", "c"],), True),
        (np.array(["a", "c"], object), (["a", "c"],), True),
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
    assert text_columns(frame) == (PAIRS, True)
    assert text_columns(frame["first"]) == ((["a", "c"],), True)
    assert text_columns((frame["first"], frame["second"])) == (PAIRS, True)
    frame.loc[3, "second"] = None
    with pytest.raises(ValueError, match="row 1 of second texts is"):
        text_columns(frame)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((["a", "c"], ["b"]), "as many first texts as second ones. Received: 2 and 1"),
        ((["a"], "b"), "as second ones. Received: 1 and a single text"),
        ((["a"], ["b"], ["c"]), "3 texts for each example. Join"),
        (("a", "b", "c"), "3 texts for each example. Join"),
        (np.array([["a", "b", "c"]]), "3 texts for each example. Join"),
        ([("a", "b"), ("c",)], r"Row 1 of the texts is \('c',\), where row 0"),
        ([("a", "b"), "c"], "Row 1 of the texts is 'c', where row 0"),
        (["a", ("b", "c")], "row 1 of texts is a tuple"),
        ([["a", "b"], ["c", "d"]], "row 0 of texts is a list"),
        (["a", None], "row 1 of texts is None; .*fillna"),
        (["a", float("nan")], "row 1 of texts is nan"),
        (["a", np.float32("nan")], "row 1 of texts is nan"),
        (np.array(["a", np.nan], object), "row 1 of texts is nan"),
        (["a", "b", 3], r"row 2 of texts is 3 \(int\), not a text"),
        ((["a", "b"], ["c", None]), "row 1 of second texts is None"),
        (([None], ["c"]), "row 0 of first texts is None"),
        ([("a", "b"), ("c", 4.5)], "row 1 of second texts is 4.5"),
        (("a", None), "`second texts` must hold texts"),
        (["a", b"\xff"], "row 1 of texts is not UTF-8: byte 0xff"),
        (["a", "\ud800"], "row 1 of texts has a lone surrogate"),
        (np.arange(3), r"row 0 of texts is 0 \(int\), not a text"),
    ],
)
def test_invalid_input_names_the_row(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        text_columns(given)


@pytest.mark.parametrize("given", [None, 3, 2.5, {"text": ["a"]}, {"a", "b"}])
def test_other_types_raise(given):
    with pytest.raises(TypeError, match=r"must hold texts.*Received: "):
        text_columns(given)


@pytest.mark.parametrize(
    "given",
    ["a", b"a", ["a"], ("a",), np.array(["a"]), np.array([b"a"], object), [[["a"]]]],
)
def test_holds_text_is_true_for_texts(given):
    assert holds_text(given)


@pytest.mark.parametrize(
    "given",
    [1, [1], [], (), None, np.array([1, 2]), np.array([], object), np.array([1], "O")],
)
def test_holds_text_is_false_for_labels(given):
    assert not holds_text(given)


def test_holds_text_of_tensors():
    tf = pytest.importorskip("tensorflow")
    assert holds_text(tf.constant(["a"]))
    assert not holds_text(tf.constant([1]))


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
