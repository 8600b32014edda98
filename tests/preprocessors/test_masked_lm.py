"""The preprocessors of the masked language model and of pretraining."""

from itertools import pairwise

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert import (
    AlbertMaskedLMPreprocessor,
    AlbertPretrainerPreprocessor,
    AlbertTokenizer,
)
from keras_albert.text.masking import tokenize_masks

TEXTS = [
    "the river runs through the town",
    "she paid twelve, he paid fifteen",
    "in 2011, the old café opened again and it was full by noon",
] * 4


@pytest.fixture
def preprocessor(tokenizer):
    return AlbertMaskedLMPreprocessor(tokenizer, seed=3)


def unmask(batch):
    x, y, weights = batch
    ids = x["token_ids"].copy()
    row, slot = np.nonzero(weights)
    ids[row, x["mask_positions"][row, slot]] = y[row, slot]
    return ids


def test_masks_differ_each_time_and_repeat_with_the_seed(tokenizer):
    def draws():
        preprocessor = AlbertMaskedLMPreprocessor(tokenizer, seed=3)
        rows = np.arange(len(TEXTS))
        examples, _ = preprocessor.encode(TEXTS)
        batches = [examples.pack(rows, 32), examples.pack(rows, 32)]
        return [x["token_ids"] for x, *_ in [*batches, preprocessor(TEXTS)]]

    first, again = draws(), draws()
    np.testing.assert_equal(first, again)
    assert (first[0] != first[1]).any()
    assert (first[0] != first[2]).any()


def test_set_random_seed_determines_masks_without_a_seed(tokenizer):
    def draw(seed):
        keras.utils.set_random_seed(seed)
        return AlbertMaskedLMPreprocessor(tokenizer)(TEXTS)[0]["token_ids"]

    np.testing.assert_array_equal(draw(1), draw(1))
    assert (draw(1) != draw(2)).any()


def test_evaluation_masks_depend_on_the_text_alone(preprocessor):
    rows = np.array([4, 2])
    first, _ = preprocessor.encode_for("evaluation", TEXTS)
    other, _ = preprocessor.encode_for("evaluation", TEXTS)
    ids = [
        examples.pack(rows, 48)[0]["token_ids"] for examples in (first, first, other)
    ]
    np.testing.assert_array_equal(ids[0], ids[1])
    np.testing.assert_array_equal(ids[0], ids[2])
    # Masks do not depend on the row's position, its batch or the padding.
    moved, _ = preprocessor.encode_for("evaluation", [TEXTS[2], "rain", TEXTS[4]])
    (wide, *_) = moved.pack(np.array([1, 2, 0]), 96)
    np.testing.assert_array_equal(wide["token_ids"][1:, :48], ids[0])
    seeded = AlbertMaskedLMPreprocessor(preprocessor.tokenizer, seed=4)
    other, _ = seeded.encode_for("evaluation", TEXTS)
    assert (other.pack(rows, 48)[0]["token_ids"] != ids[0]).any()


def test_number_of_slots_depends_on_the_width_alone(preprocessor):
    shapes = {preprocessor(["town " * n])[1].shape[1] for n in range(1, 12)}
    widths = {preprocessor.padded_length(n + 2) for n in range(1, 40)}
    assert shapes <= {preprocessor.mask_slots(width) for width in widths}
    assert preprocessor.mask_slots(512) == 80


def test_one_text_and_pairs(preprocessor):
    x, y, weights = preprocessor("the town")
    width = preprocessor.padded_length(int(x["padding_mask"].sum()))
    assert x["token_ids"].shape == (width,)
    slots = (preprocessor.mask_slots(width),)
    assert y.shape == weights.shape == x["mask_positions"].shape == slots
    x, _, _ = preprocessor(("the town", "the river"))
    assert x["segment_ids"].max() == 1
    batch = preprocessor((TEXTS, TEXTS[::-1]))
    plain = AlbertMaskedLMPreprocessor(preprocessor.tokenizer)
    texts = plain.encode_for("prediction", (TEXTS, TEXTS[::-1]))[0].texts
    width = batch[0]["token_ids"].shape[1]
    np.testing.assert_array_equal(
        unmask(batch), texts.pack(np.arange(12), width)["token_ids"]
    )


def test_sample_weights(preprocessor):
    examples, _ = preprocessor.encode_for("evaluation", TEXTS)
    _, _, plain = examples.pack(np.arange(12), 48)
    weight = np.linspace(0, 2, 12).astype("float32")
    examples, _ = preprocessor.encode_for("evaluation", TEXTS, sample_weight=weight)
    _, _, weighted = examples.pack(np.arange(12), 48)
    np.testing.assert_allclose(weighted, plain * weight[:, None])


def test_mask_tokens_in_texts(preprocessor):
    texts = ["the [MASK] runs", "no mask", "[MASK] [MASK] [MASK] town"]
    examples, batched = preprocessor.encode_for("prediction", texts)
    assert batched
    assert examples.written.tolist() == [1, 0, 3]
    (x,) = examples.pack(np.array([2, 0, 1]), 16)
    assert x["mask_positions"].shape == (3, 4)
    assert x["mask_positions"][0].tolist() == [1, 2, 3, 0]
    assert x["token_ids"][1, x["mask_positions"][1, 0]] == 4
    assert not x["mask_positions"][2].any()
    # In training, `[MASK]` is ordinary text.
    masked = preprocessor(["[MASK] [MASK]"] * 8)
    assert not (unmask(masked) == 4).any()


def test_targets_raise(preprocessor):
    with pytest.raises(ValueError, match="Leave out `y`"):
        preprocessor(TEXTS, y=list(range(12)))


FIRST = [f"the river runs through the town {n}" for n in range(400)]
SECOND = [f"she paid {n}" for n in range(400)]


@pytest.fixture(scope="module")
def pretrainer(tiny_proto):
    return AlbertPretrainerPreprocessor(
        AlbertTokenizer(tiny_proto), max_sequence_length=32, seed=5
    )


def unmask_pairs(x, y, weights):
    ids = x["token_ids"].copy()
    row, slot = np.nonzero(weights["masked_lm"])
    ids[row, x["mask_positions"][row, slot]] = y["masked_lm"][row, slot]
    return ids


def test_half_of_the_pairs_are_swapped_and_labelled(pretrainer):
    x, y, weights = pretrainer((FIRST, SECOND))
    swapped = y["sentence_order"]
    assert 150 < swapped.sum() < 250
    assert (weights["sentence_order"] == 1).all()
    ids = unmask_pairs(x, y, weights)
    tokenizer = pretrainer.tokenizer
    for row in range(40):
        a, b = tokenizer(FIRST[row]).tolist(), tokenizer(SECOND[row]).tolist()
        if swapped[row]:
            a, b = b, a
        real = x["padding_mask"][row].astype(bool)
        expected = [2, *a, 3, *b, 3]
        assert ids[row][real].tolist() == expected
        segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
        assert x["segment_ids"][row][real].tolist() == segments


def test_swaps_differ_each_epoch(pretrainer):
    examples, _ = pretrainer.encode((FIRST, SECOND))
    rows = np.arange(400)
    orders = [examples.pack(rows, 32)[1]["sentence_order"] for _ in range(4)]
    flips = np.mean([(a != b).mean() for a, b in pairwise(orders)])
    assert 0.4 < flips < 0.6


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=5
    )
)
def test_truncated_length_does_not_depend_on_the_order(pretrainer, lengths):
    first = ["town " * a for a, _ in lengths]
    second = ["sea " * b for _, b in lengths]
    examples, _ = pretrainer.encode((first, second))
    np.testing.assert_array_equal(examples.texts.lengths, examples.swapped.lengths)
    x, _, _ = examples.pack(np.arange(len(lengths)), 32)
    np.testing.assert_array_equal(x["padding_mask"].sum(axis=1), examples.lengths)


def test_sample_weights_of_pairs(pretrainer):
    weight = np.array([0.0, 2.0], "float32")
    _, _, weights = pretrainer((FIRST[:2], SECOND[:2]), sample_weight=weight)
    assert weights["sentence_order"].tolist() == [0, 2]
    assert not weights["masked_lm"][0].any()
    assert weights["masked_lm"][1].max() == 2


@pytest.mark.parametrize("x", [["one", "two"], "one", [("a", "b", "c")]])
def test_single_texts_raise(pretrainer, x):
    with pytest.raises(ValueError, match=r"pair|3 texts"):
        pretrainer(x)


def pieces_of(tokenizer, text):
    (ids,) = tokenize_masks(tokenizer.vocabulary, [text]).to_lists()
    return [tokenizer.id_to_token(token_id) for token_id in ids]


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("the [MASK] in the town", "the", " in the town"),
        ("[MASK] the town", "", " the town"),
        ("the town [MASK]", "the town", ""),
        ("the town[MASK]", "the town", ""),
        ("[MASK]", "", ""),
        ("the\t[MASK]\nin", "the", "in"),
    ],
)
def test_text_around_a_mask_is_tokenized_as_usual(tokenizer, text, before, after):
    expected = [
        tokenizer.id_to_token(int(i))
        for part in (before, None, after)
        for i in ([4] if part is None else tokenizer(part))
    ]
    assert pieces_of(tokenizer, text) == expected


def test_text_after_a_mask_without_a_space_continues_its_word(tokenizer):
    assert pieces_of(tokenizer, "the [MASK].") == ["▁the", "[MASK]", "."]
    assert pieces_of(tokenizer, "[MASK], the")[:2] == ["[MASK]", ","]
    assert pieces_of(tokenizer, "[MASK][MASK]") == ["[MASK]", "[MASK]"]
    # The vocabulary contains "▁the" and the letters, but not "the".
    assert pieces_of(tokenizer, "[MASK]the")[1].startswith(("▁", "t"))


def test_texts_without_masks_are_tokenized_as_usual(tokenizer):
    texts = ["the town", "", "mask [mask] [CLS]"]
    assert tokenize_masks(tokenizer.vocabulary, texts).to_lists() == tokenizer(texts)
    assert tokenize_masks(tokenizer.vocabulary, []).to_lists() == []
