"""Texts that share rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text.packing import (
    PackedShape,
    packed_inputs,
    place_texts,
    plan_packed_batches,
)

lengths_of_batch = st.lists(st.integers(1, 600), min_size=1, max_size=80).map(np.array)


def sentences(count, seed=0):
    """Lengths as those of SST-2: 1 to 50 words, most of them few."""
    words = np.random.default_rng(seed).gamma(1.3, 7.5, count)
    return 2 + np.clip(words.astype(int), 1, 60)


@settings(deadline=None)
@given(st.data(), st.integers(1, 3), st.integers(1, 20), st.integers(1, 9))
def test_texts_do_not_overlap(data, batches, texts, rows):
    width = data.draw(st.integers(4, 40))
    sizes = st.lists(st.integers(0, width), min_size=texts, max_size=texts)
    drawn = st.lists(sizes, min_size=batches, max_size=batches)
    lengths = np.array(data.draw(drawn))
    places = place_texts(lengths, width, rows)
    if places is None:
        # They do not fit, or could not be placed; they can if each has a row.
        assert rows < texts
        return
    for size, row, start in zip(lengths, *places, strict=True):
        taken = np.zeros((rows, width), int)
        for length, at, first in zip(size, row, start, strict=True):
            assert first + length <= width
            taken[at, first : first + length] += 1
        assert taken.max() <= 1


@settings(deadline=None)
@given(lengths_of_batch.filter(lambda lengths: len(lengths) < 40))
def test_inputs_of_rows_name_each_token_once(lengths):
    shape = PackedShape(hidden_dim=16)
    (row,), (start,) = shape.place(lengths[None])
    mask = (np.arange(lengths.max()) < lengths[:, None]).astype("int32")
    rows = shape.rows[len(lengths)]
    tokens, places = packed_inputs(row, start, mask, shape.width, rows)
    assert tokens.shape == (rows, shape.width)
    assert tokens.dtype == places.dtype == np.int32
    found = tokens[tokens >= 0]
    np.testing.assert_array_equal(np.sort(found), np.flatnonzero(mask))
    # Both directions, and the tokens of a text next to each other.
    np.testing.assert_array_equal(
        tokens.reshape(-1)[places[mask > 0]], np.flatnonzero(mask)
    )
    assert not places[mask == 0].any()
    for text, length in zip(places, lengths, strict=True):
        np.testing.assert_array_equal(np.diff(text[:length]), np.ones(length - 1))


def test_shape_keeps_the_width_and_adds_rows():
    shape = PackedShape(hidden_dim=64)
    shape.choose(np.full((3, 4), 6), longest=11)
    width, rows = shape.width, shape.rows[4]
    assert width >= 11
    row, _ = shape.place(np.full((1, 4), 11))
    assert shape.width == width
    assert shape.rows[4] > rows
    assert row.max() < shape.rows[4]
    # Another number of texts has its own rows, and no more of them.
    shape.place(np.array([[3]]))
    assert shape.rows[1] == 1
    other = PackedShape(hidden_dim=64)
    other.place(np.full((2, 5), 16))
    assert other.rows[5] <= 5
    assert other.rows[5] * other.width <= 5 * 16 + other.width
    # Rows become wider for longer texts.
    other.place(np.array([[5, 299]]))
    assert other.width >= 299
    assert other.width % 8 == 0


@pytest.mark.parametrize("batch_size", [16, 32, 64])
@pytest.mark.parametrize("count", [512, 5000])
def test_at_most_a_tenth_of_padding_and_one_shape(batch_size, count):
    lengths = sentences(count)
    full = count // batch_size

    def batches(epoch):
        plan = plan_packed_batches(lengths, batch_size, np.random.default_rng(epoch))
        return lengths[np.stack(plan[:full])]

    shape = PackedShape(hidden_dim=256)
    epochs = [batches(epoch) for epoch in range(10)]
    shape.choose(np.concatenate(epochs[:4]), int(lengths.max()))
    rows = dict(shape.rows)
    for epoch in epochs:
        shape.place(epoch)
    assert shape.rows == rows
    computed = shape.width * rows[batch_size]
    assert computed <= 1.1 * epochs[0].sum(axis=1).mean()
