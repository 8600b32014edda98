"""Tokenized texts, their windows and packed rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text.packing import EncodedTexts, SpecialIds, TokenRows
from keras_albert.text.windows import OverlappingWindows, TextWindows

CLS, SEP, PAD = 2, 3, 0
SPECIAL = SpecialIds(cls=CLS, sep=SEP, pad=PAD)

ids = st.lists(st.integers(5, 99), max_size=14)
single_rows = st.lists(st.tuples(ids), min_size=1, max_size=5)
pair_rows = st.lists(st.tuples(ids, ids), min_size=1, max_size=5)
batches = single_rows | pair_rows
truncations = st.sampled_from(["round_robin", "waterfall"])


def truncate_slowly(row, budget, truncate):
    """Truncate a row by assigning the budget one token at a time."""
    taken = [0] * len(row)
    if truncate == "waterfall":
        for segment, tokens in enumerate(row):
            while sum(taken) < budget and taken[segment] < len(tokens):
                taken[segment] += 1
    else:
        turn = 0
        while sum(taken) < budget and sum(taken) < sum(map(len, row)):
            segment = turn % len(row)
            taken[segment] += taken[segment] < len(row[segment])
            turn += 1
    return [tokens[:count] for tokens, count in zip(row, taken, strict=True)]


def pack_slowly(row, max_length, width, truncate):
    budget = max_length - len(row) - 1
    tokens, segments = [CLS], [0]
    for number, segment in enumerate(truncate_slowly(row, budget, truncate)):
        tokens += [*segment, SEP]
        segments += [number] * (len(segment) + 1)
    padding = width - len(tokens)
    return (
        tokens + [PAD] * padding,
        segments + [0] * padding,
        [1] * len(tokens) + [0] * padding,
    )


def encode(rows, max_length, truncate):
    columns = tuple(TokenRows.from_lists(column) for column in zip(*rows, strict=True))
    return EncodedTexts(columns, SPECIAL, max_length, truncate)


@given(batches, st.integers(5, 24), st.integers(0, 4), truncations)
def test_packs_like_a_naive_implementation(rows, max_length, extra, truncate):
    encoded = encode(rows, max_length, truncate)
    width = int(encoded.lengths.max()) + extra
    order = np.arange(len(rows))[::-1]
    packed = encoded.pack(order, width)
    assert len(encoded) == len(rows)
    for name, position in (("token_ids", 0), ("segment_ids", 1), ("padding_mask", 2)):
        expected = [pack_slowly(rows[i], max_length, width, truncate) for i in order]
        assert packed[name].tolist() == [row[position] for row in expected]
        assert packed[name].dtype == np.int32


@pytest.mark.parametrize("columns", [1, 2])
def test_empty_batch(columns):
    empty = (TokenRows.from_lists([]),) * columns
    encoded = EncodedTexts(empty, SPECIAL, 8)
    assert encoded.pack(np.arange(0), 4)["token_ids"].shape == (0, 4)
    assert encoded.lengths.tolist() == []


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
