"""Overlapping windows of documents."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text.packing import SpecialIds, TokenRows
from keras_albert.text.windows import OverlappingWindows, TextWindows

CLS, SEP, PAD = 2, 3, 0


SPECIAL = SpecialIds(cls=CLS, sep=SEP, pad=PAD)


@settings(deadline=None)
@given(st.lists(st.integers(0, 25), max_size=4), st.integers(1, 9), st.data())
def test_each_token_is_owned_by_the_window_with_most_context(lengths, size, data):
    stride = data.draw(st.integers(1, size))
    windows = OverlappingWindows(np.array(lengths, np.int64), size, stride)
    assert len(windows) == len(windows.tokens) == len(windows.documents)
    ends = np.cumsum(lengths)
    contexts, owners = {}, {}
    counts = [0] * len(windows)
    place = 0
    for number, row in enumerate(windows.tokens.to_lists()):
        document = windows.documents[number]
        for at, token in enumerate(row):
            assert ends[document] - lengths[document] <= token < ends[document]
            context = min(at, len(row) - 1 - at)
            contexts.setdefault(token, []).append(context)
            if windows.owned[place]:
                assert token not in owners
                # The owner is the first window with the most context.
                assert context == max(contexts[token])
                assert contexts[token].index(context) == len(contexts[token]) - 1
                owners[token] = context
                counts[number] += 1
            place += 1
        assert len(row) == min(size, lengths[document])
    assert (windows.owned_to - windows.owned_from).tolist() == counts
    assert sorted(owners) == list(range(sum(lengths)))
    assert owners == {token: max(found) for token, found in contexts.items()}


def test_one_window_for_short_and_empty_documents():
    windows = OverlappingWindows(np.array([0, 4]), 4, 2)
    assert windows.tokens.to_lists() == [[], [0, 1, 2, 3]]
    assert not len(OverlappingWindows(np.array([], np.int64), 4, 2))


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


@pytest.mark.parametrize("stride", [0, 4])
def test_invalid_stride_raises(stride):
    with pytest.raises(ValueError, match=f"from 1 to 3, .*Received: stride={stride}"):
        TextWindows(TokenRows.from_lists([[5]]), SPECIAL, 5, stride)
