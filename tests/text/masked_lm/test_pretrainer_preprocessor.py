"""The preprocessor of the pretraining model."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert import AlbertPretrainerPreprocessor, AlbertTokenizer

FIRST = [f"the river runs through the town {n}" for n in range(400)]
SECOND = [f"she paid {n}" for n in range(400)]


@pytest.fixture(scope="module")
def preprocessor(tiny_proto):
    return AlbertPretrainerPreprocessor(
        AlbertTokenizer(tiny_proto), max_sequence_length=32, seed=5
    )


def unmask(x, y, weights):
    ids = x["token_ids"].copy()
    row, slot = np.nonzero(weights["masked_lm"])
    ids[row, x["mask_positions"][row, slot]] = y["masked_lm"][row, slot]
    return ids


def test_half_of_the_pairs_are_swapped_and_labelled(preprocessor):
    x, y, weights = preprocessor((FIRST, SECOND))
    swapped = y["sentence_order"]
    assert 150 < swapped.sum() < 250
    assert (weights["sentence_order"] == 1).all()
    ids = unmask(x, y, weights)
    tokenizer = preprocessor.tokenizer
    for row in range(40):
        a, b = tokenizer(FIRST[row]).tolist(), tokenizer(SECOND[row]).tolist()
        if swapped[row]:
            a, b = b, a
        real = x["padding_mask"][row].astype(bool)
        expected = [2, *a, 3, *b, 3]
        assert ids[row][real].tolist() == expected
        segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
        assert x["segment_ids"][row][real].tolist() == segments


def test_swaps_differ_each_epoch(preprocessor):
    examples, _ = preprocessor.encode((FIRST, SECOND))
    rows = np.arange(400)
    orders = [examples.pack(rows, 32)[1]["sentence_order"] for _ in range(4)]
    flips = np.mean([(a != b).mean() for a, b in pairwise(orders)])
    assert 0.4 < flips < 0.6


def test_number_of_masks_does_not_depend_on_the_order(preprocessor):
    _, y, weights = preprocessor((FIRST, SECOND))
    swapped = y["sentence_order"].astype(bool)
    masked = weights["masked_lm"].sum(axis=1)
    assert abs(masked[swapped].mean() - masked[~swapped].mean()) < 0.3


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=5
    )
)
def test_truncated_length_does_not_depend_on_the_order(preprocessor, lengths):
    first = ["town " * a for a, _ in lengths]
    second = ["sea " * b for _, b in lengths]
    examples, _ = preprocessor.encode((first, second))
    np.testing.assert_array_equal(examples.texts.lengths, examples.swapped.lengths)
    x, _, _ = examples.pack(np.arange(len(lengths)), 32)
    np.testing.assert_array_equal(x["padding_mask"].sum(axis=1), examples.lengths)


def test_sample_weights(preprocessor):
    weight = np.array([0.0, 2.0], "float32")
    _, _, weights = preprocessor((FIRST[:2], SECOND[:2]), sample_weight=weight)
    assert weights["sentence_order"].tolist() == [0, 2]
    assert not weights["masked_lm"][0].any()
    assert weights["masked_lm"][1].max() == 2


@pytest.mark.parametrize("x", [["one", "two"], "one", [("a", "b", "c")]])
def test_single_texts_raise(preprocessor, x):
    with pytest.raises(ValueError, match=r"pair|3 texts"):
        preprocessor(x)


def test_config_round_trip(preprocessor):
    config = preprocessor.get_config()
    copy = AlbertPretrainerPreprocessor.from_config(
        config | {"tokenizer": preprocessor.tokenizer}
    )
    assert {k: v for k, v in copy.get_config().items() if k != "tokenizer"} == {
        k: v for k, v in config.items() if k != "tokenizer"
    }
