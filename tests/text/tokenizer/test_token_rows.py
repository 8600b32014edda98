import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_albert.text.packing import TokenRows, to_id_rows

rows_of_ids = st.lists(st.lists(st.integers(0, 29999), max_size=9), max_size=9)


@given(rows_of_ids)
def test_lists_round_trip(lists):
    rows = TokenRows.from_lists(lists)
    assert rows.to_lists() == lists
    assert len(rows) == len(lists)
    assert rows.values.dtype == np.int32
    assert rows.lengths.dtype == rows.starts.dtype == np.int64
    arrays = TokenRows.from_arrays([np.array(row, np.int32) for row in lists])
    assert arrays.to_lists() == lists
    assert arrays.values.dtype == np.int32


@given(rows_of_ids.filter(bool), st.data())
def test_take_equals_list_indexing(lists, data):
    index = st.integers(-len(lists), len(lists) - 1)
    picked = data.draw(st.lists(index, max_size=12))
    taken = TokenRows.from_lists(lists).take(picked)
    assert taken.to_lists() == [lists[i] for i in picked]
    assert taken.values.dtype == np.int32


def test_take_raises_for_a_missing_row():
    with pytest.raises(IndexError):
        TokenRows.from_lists([[1]]).take([1])


@pytest.mark.parametrize(
    ("given", "rows", "batched"),
    [
        (5, [[5]], False),
        ([], [[]], False),
        ([5, 6], [[5, 6]], False),
        (np.array([5, 6]), [[5, 6]], False),
        ([np.int64(5)], [[5]], False),
        ([[5], []], [[5], []], True),
        (np.array([[5, 6]]), [[5, 6]], True),
        ([np.array([5]), (6, 7)], [[5], [6, 7]], True),
        (TokenRows.from_lists([[5], []]), [[5], []], True),
    ],
)
def test_reads_all_types(given, rows, batched):
    assert to_id_rows(given, 10) == (rows, batched)


@pytest.mark.parametrize(
    "bad", [[-100], [10], [0.5], ["a"], [[1], [2, None]], [[1], 2]]
)
def test_invalid_ids_raise(bad):
    with pytest.raises(ValueError, match="whole numbers from 0 to 9"):
        to_id_rows(bad, 10)
