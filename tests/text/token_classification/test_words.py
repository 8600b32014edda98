"""Words of texts: given, or split from raw texts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text.tasks.token_classification import (
    join_words,
    split_words,
    word_columns,
)

STRANGE = "aZ9_ \t\n.,'-é\u0301\u200b\u200d\ufe0f👩🏽🇬🇧日本สวั½´\u00ad"  # noqa: RUF001


@settings(deadline=None)
@given(st.text(STRANGE))
def test_only_whitespace_belongs_to_no_word(text):
    row = split_words(text)
    assert all(row.words)
    assert (row.ends[:-1] <= row.starts[1:]).all()
    rest = list(text)
    for start, end in zip(row.starts, row.ends, strict=True):
        rest[start:end] = " " * (end - start)
    assert not "".join(rest).strip()


@settings(deadline=None)
@given(st.lists(st.text(STRANGE)))
def test_offsets_of_joined_words(words):
    row = join_words(words)
    assert row.words == words
    assert row.text == " ".join(words)
    assert not row.is_raw


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("U.S. isn't x_y", ["U", ".", "S", ".", "isn", "'", "t", "x_y"]),
        ("cafe\u0301s", ["cafe\u0301s"]),
        (
            "👩\u200d👩\u200d👧! 👍🏽 ☎\ufe0f",
            ["👩\u200d👩\u200d👧", "!", "👍🏽", "☎\ufe0f"],
        ),
        ("🇬🇧🇫🇷", ["🇬🇧", "🇫🇷"]),
        ("日本 สวัสดี", ["日", "本", "ส", "วั", "ส", "ดี"]),
        ("", []),
    ],
)
def test_words_of_many_scripts(text, words):
    assert split_words(text).words == words


@pytest.mark.parametrize(
    ("x", "rows", "batched"),
    [
        ("a b", ["a b"], False),
        (["a b", b"c"], ["a b", "c"], True),
        (("a", b"b"), [["a", "b"]], False),
        ([["a", b"b"], []], [["a", "b"], []], True),
        ([("a", "b")], [["a", "b"]], True),
        (np.array([["a", "b"], ["c", "d"]]), [["a", "b"], ["c", "d"]], True),
        (np.array(["a b", "c"]), ["a b", "c"], True),
        ([], [], True),
    ],
)
def test_word_columns_of_words_and_texts(x, rows, batched):
    assert word_columns(x) == ((rows,), batched)


def test_pandas_columns():
    pandas = pytest.importorskip("pandas")
    assert word_columns(pandas.Series(["a b", "c"])) == ((["a b", "c"],), True)
    assert word_columns(pandas.Series([["a", "b"], ["c"]]))[0] == ([["a", "b"], ["c"]],)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([["a"], "b"], ValueError, "Row 1 is a text, and row 0 is a list of words"),
        (["b", ["a"]], ValueError, "Row 1 is a list of words, and row 0 is a text"),
        ([["a"], ["b", None]], ValueError, "row 1 of the words of row 1 is None"),
        ([["a", ["b"]]], ValueError, "row 1 of the words of row 0 is a list"),
        (["a", None], ValueError, "row 1 of texts is None"),
        ((["a"], ["b"]), TypeError, "A tuple is the words of one text"),
        (None, TypeError, "NoneType"),
        (3, TypeError, "int"),
    ],
)
def test_invalid_words_name_the_row(x, error, message):
    with pytest.raises(error, match=message):
        word_columns(x)
