"""Windows of long texts: rows contain all tokens, and outputs are merged by text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text.packing import EncodedTexts, SpecialIds, TextWindows
from keras_albert.text.tokenizer.token_rows import TokenRows

SPECIAL = SpecialIds(cls=2, sep=3, pad=0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 25), max_size=4), st.integers(5, 9), st.data())
def test_windows_contain_all_tokens_of_each_text(lengths, size, data):
    stride = data.draw(st.none() | st.integers(1, size - 2))
    texts = TokenRows.from_lists([range(4, 4 + length) for length in lengths])
    windows = TextWindows(texts, SPECIAL, size, stride)
    (x,) = windows.pack(np.arange(len(windows)), size)
    assert (x["padding_mask"].sum(axis=1) == windows.lengths).all()
    # The output of a window marks the tokens that it contains.
    holds = np.zeros((len(windows), 30))
    for row, ids in enumerate(x["token_ids"]):
        holds[row, ids[ids > SPECIAL.sep]] = 1
    found = windows.mean(holds)
    for row, length in enumerate(lengths):
        assert (found[row, 4 : 4 + length] > 0).all()
        assert not found[row, 4 + length :].any()
    same = windows.mean(np.ones((len(windows), 2), np.float32))
    np.testing.assert_allclose(same, np.ones((len(lengths), 2)), rtol=1e-6)


def test_windows_are_weighted_by_their_owned_tokens():
    texts = TokenRows.from_lists([range(4, 11), [4], []])
    windows = TextWindows(texts, SPECIAL, max_length=6, stride=2)
    # The windows from 0, 2 and 3 own the tokens 0-2, 3-4 and 5-6.
    outputs = np.array([[7.0], [14.0], [70.0], [0.1], [0.2]], np.float32)
    merged = windows.mean(outputs)
    assert windows.counts.tolist() == [3, 1, 1]
    assert merged[0] == pytest.approx((3 * 7 + 2 * 14 + 2 * 70) / 7)
    assert merged[1:].tolist() == outputs[3:].tolist()
    assert merged.dtype == np.float32


def test_texts_that_fit_are_packed_as_usual():
    texts = TokenRows.from_lists([[5, 6, 7], [], [8]])
    windows = TextWindows(texts, SPECIAL, max_length=5)
    rows = np.array([2, 0, 1])
    expected = EncodedTexts((texts,), SPECIAL, 5).pack(rows, 5)
    (found,) = windows.pack(rows, 5)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


@pytest.mark.parametrize("stride", [0, 4])
def test_invalid_stride_raises(stride):
    with pytest.raises(ValueError, match=f"from 1 to 3, .*Received: stride={stride}"):
        TextWindows(TokenRows.from_lists([[5]]), SPECIAL, 5, stride)
