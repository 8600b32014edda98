"""Batches of similar length, and texts that share rows."""

from itertools import pairwise

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text import batching as length_buckets
from keras_albert.text.batching import (
    PackedShape,
    bucket_length,
    default_length_buckets,
    packed_inputs,
    place_texts,
    plan_batches,
    plan_packed_batches,
)

lengths_of_texts = st.lists(st.integers(1, 600), max_size=300).map(np.array)


@given(st.integers(1, 5000))
def test_default_buckets_increase_to_the_maximum(longest):
    buckets = default_length_buckets(longest)
    assert buckets[-1] == longest
    # How much a row is padded at most.
    share = {"jax": 1 / 2, "torch": 1 / 16}.get(keras.config.backend(), 0)
    assert all(a < b <= max(a + 8, a * (1 + share)) for a, b in pairwise(buckets))


def test_default_buckets_on_a_gpu(monkeypatch):
    if keras.config.backend() == "jax":
        pytest.skip("JAX has the same lengths on all devices")
    monkeypatch.setattr(length_buckets, "_is_on_cpu", lambda: False)
    assert default_length_buckets(512) == tuple(range(8, 513, 8))


def test_default_buckets_up_to_512(monkeypatch):
    monkeypatch.setattr(length_buckets, "_is_on_cpu", lambda: True)
    expected = {
        "jax": (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512),
        "tensorflow": tuple(range(1, 513)),
        "torch": (
            *range(1, 32),
            *(
                n
                for power in (32, 64, 128, 256)
                for n in range(power, 2 * power, power // 16)
            ),
            512,
        ),
    }
    assert default_length_buckets(512) == expected[keras.config.backend()]


@pytest.mark.parametrize("make", [plan_batches, plan_packed_batches])
@settings(deadline=None)
@given(lengths_of_texts, st.integers(1, 40), st.none() | st.integers(0, 9))
def test_plan_contains_each_example_once(make, lengths, batch_size, seed):
    generator = None if seed is None else np.random.default_rng(seed)
    plan = make(lengths, batch_size, generator)
    held = [int(index) for batch in plan for index in batch]
    assert sorted(held) == list(range(len(lengths)))
    sizes = [len(batch) for batch in plan]
    assert all(1 <= size <= batch_size for size in sizes)
    assert sum(size < batch_size for size in sizes) <= 1
    assert make is plan_batches or set(sizes[:-1]) <= {batch_size}


@given(lengths_of_texts, st.integers(1, 40))
def test_plan_without_generator_starts_with_the_longest(lengths, batch_size):
    plan = plan_batches(lengths, batch_size)
    in_order = [int(lengths[index]) for batch in plan for index in batch]
    assert in_order == sorted(in_order, reverse=True)


@pytest.mark.parametrize("make", [plan_batches, plan_packed_batches])
def test_plan_with_generator_is_random_and_reproducible(make):
    lengths = np.random.default_rng(0).integers(5, 60, 500)
    first, again, other = (
        make(lengths, 8, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert [b.tolist() for b in first] == [b.tolist() for b in again]
    assert [b.tolist() for b in first] != [b.tolist() for b in other]
    # The order of batches is shuffled too, so that training does not begin with the
    # longest.
    longest = [lengths[batch].max() for batch in first]
    assert longest != sorted(longest, reverse=True)


@pytest.mark.parametrize("seed", [None, 0])
def test_batches_have_little_padding(seed):
    # A skewed distribution of lengths up to 512, as for real sentences.
    random = np.random.default_rng(3)
    lengths = np.clip(random.lognormal(2.7, 0.6, 4000).astype(int), 3, 512)
    generator = None if seed is None else np.random.default_rng(seed)
    buckets = default_length_buckets(512)

    def padded(plan):
        return sum(
            len(batch) * bucket_length(int(lengths[batch].max()), buckets)
            for batch in plan
        )

    sorted_plan = plan_batches(lengths, 32, generator)
    unsorted = np.split(random.permutation(4000), range(32, 4000, 32))
    real = lengths.sum()
    assert padded(sorted_plan) < 1.35 * real
    assert padded(unsorted) > 2.2 * real


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
