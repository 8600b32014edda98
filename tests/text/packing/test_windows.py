"""Overlapping windows: each token is owned by the window with the most context."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text.packing import OverlappingWindows


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
    assert windows.owned_counts.tolist() == counts
    assert sorted(owners) == list(range(sum(lengths)))
    assert owners == {token: max(found) for token, found in contexts.items()}


def test_one_window_for_short_and_empty_documents():
    windows = OverlappingWindows(np.array([0, 4]), 4, 2)
    assert windows.tokens.to_lists() == [[], [0, 1, 2, 3]]
    assert not len(OverlappingWindows(np.array([], np.int64), 4, 2))
