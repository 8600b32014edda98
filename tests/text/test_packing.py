"""Rows of tokens: ragged, truncated, packed and planned as batches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text.packing import (
    EncodedTexts,
    SpecialIds,
    TokenRows,
    plan_batches,
    plan_packed_batches,
    to_id_rows,
)

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


lengths_of_texts = st.lists(st.integers(1, 600), max_size=300).map(np.array)


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
