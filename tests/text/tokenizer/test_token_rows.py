import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_albert.text.tokenizer.token_rows import TokenRows

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
