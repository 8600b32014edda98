import math
import time

import numpy as np
import pytest

from keras_albert.text.reading import to_text_rows


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
def test_reads_all_types(given, rows, batched):
    result = to_text_rows(given)
    assert result == (rows, batched)
    assert all(type(row) is str for row in result[0])


def test_reads_tensorflow_tensors():
    tf = pytest.importorskip("tensorflow")
    assert to_text_rows(tf.constant(["é", "b"])) == (["é", "b"], True)
    assert to_text_rows(tf.constant("é")) == (["é"], False)


def test_reads_pandas():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"text": ["a", "é"]})
    assert to_text_rows(frame["text"]) == (["a", "é"], True)
    with pytest.raises(ValueError, match=r"row 1 of texts is .*fillna"):
        to_text_rows(pd.Series(["a", None], dtype="string"))
    with pytest.raises(ValueError, match="rank 0 or 1"):
        to_text_rows(frame)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (None, "row 3 of questions is None.*fill it with an empty string"),
        (math.nan, "row 3 of questions is nan.*Drop"),
        (np.float32("nan"), "row 3 of questions is nan"),
        (5, r"row 3 of questions is 5 \(int\), not a text.*str"),
        (True, r"row 3 of questions is True \(bool\)"),
        (["x"], "row 3 of questions is a list.*flat list.*join"),
        (np.array(["x"]), "row 3 of questions is a ndarray"),
        (b"ab\xff", "row 3 of questions is not UTF-8: byte 0xff at offset 2.*latin-1"),
        ("ab\ud83d", r"row 3 of questions has a lone surrogate, U\+D83D, at char.* 2"),
    ],
)
def test_errors_name_the_row_and_the_remedy(row, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        to_text_rows(["a", "é", "c", row], "questions")


@pytest.mark.parametrize("given", [None, 5, {"text": "a"}, iter(["a"])])
def test_other_types_raise(given):
    with pytest.raises(TypeError, match=r"`texts` must hold texts.*Received: "):
        to_text_rows(given)


def test_rank_2_raises():
    with pytest.raises(ValueError, match=r"shape \(1, 2\).*one column at a time"):
        to_text_rows(np.array([["a", "b"]]))


def test_valid_input_is_read_fast():
    rows = ["one plain row of text", "et une ligne accentuée"] * 50_000
    start = time.perf_counter()
    assert to_text_rows(rows)[0] == rows
    assert time.perf_counter() - start < 1.0  # 0.02 s; more on a busy machine
