"""Batches of similar length."""

from itertools import pairwise

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras_albert.text.batching import bucket_length

from keras_albert.preprocessors.preprocessor import default_length_buckets
from keras_albert.text import batching as length_buckets
from keras_albert.text.packing import plan_batches
from keras_albert.text.sequence_packing import plan_packed_batches

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
