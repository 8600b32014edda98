"""The preprocessor of the masked language model."""

import keras
import numpy as np
import pytest

from keras_albert import AlbertMaskedLMPreprocessor, AlbertTokenizer

TEXTS = [
    "the river runs through the town",
    "she paid twelve, he paid fifteen",
    "in 2011, the old café opened again and it was full by noon",
] * 4


@pytest.fixture(scope="module")
def tokenizer(tiny_proto):
    return AlbertTokenizer(tiny_proto)


@pytest.fixture
def preprocessor(tokenizer):
    return AlbertMaskedLMPreprocessor(tokenizer, seed=3)


def unmask(batch):
    x, y, weights = batch
    ids = x["token_ids"].copy()
    row, slot = np.nonzero(weights)
    ids[row, x["mask_positions"][row, slot]] = y[row, slot]
    return ids


def test_only_masked_tokens_differ_from_the_text(preprocessor, tokenizer):
    batch = preprocessor(TEXTS)
    x, y, weights = batch
    assert set(x) == {"token_ids", "segment_ids", "padding_mask", "mask_positions"}
    assert x["mask_positions"].shape == y.shape == weights.shape
    for ids, mask, text in zip(unmask(batch), x["padding_mask"], TEXTS, strict=True):
        assert ids[: mask.sum()].tolist() == [2, *tokenizer(text).tolist(), 3]
    assert (weights.sum(axis=1) >= 1).all()
    assert {array.dtype.name for array in x.values()} == {"int32"}


def test_masks_differ_each_time_and_repeat_with_the_seed(tokenizer):
    def draws():
        preprocessor = AlbertMaskedLMPreprocessor(tokenizer, seed=3)
        rows = np.arange(len(TEXTS))
        examples, _ = preprocessor.encode(TEXTS)
        batches = [examples.pack(rows, 32), examples.pack(rows, 32)]
        return [x["token_ids"] for x, *_ in [*batches, preprocessor(TEXTS)]]

    first, again = draws(), draws()
    for ids, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(ids, same)
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


def test_masking_arguments(tokenizer):
    preprocessor = AlbertMaskedLMPreprocessor(
        tokenizer,
        sequence_length=32,
        mask_selection_rate=0.5,
        mask_selection_length=5,
        mask_token_rate=1.0,
        random_token_rate=0.0,
        seed=1,
    )
    x, y, weights = preprocessor(TEXTS)
    assert y.shape == (12, 5)
    row, slot = np.nonzero(weights)
    assert (x["token_ids"][row, x["mask_positions"][row, slot]] == 4).all()


def test_mask_selection_length_is_at_most_the_row_length(tokenizer):
    lengths = ({"sequence_length": 8}, {"max_sequence_length": 8})
    for length in lengths:
        AlbertMaskedLMPreprocessor(tokenizer, mask_selection_length=8, **length)
        with pytest.raises(ValueError, match="`mask_selection_length` is at most 8"):
            AlbertMaskedLMPreprocessor(tokenizer, mask_selection_length=9, **length)


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


def test_config_round_trip(preprocessor):
    config = preprocessor.get_config()
    assert config["seed"] == 3
    copy = AlbertMaskedLMPreprocessor.from_config(
        config | {"tokenizer": preprocessor.tokenizer, "max_ngram": 1}
    )
    assert copy.get_config().keys() == config.keys()
    assert copy.max_ngram == 1
    assert copy.masking.rates.max_ngram == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mask_selection_rate": 1.2}, "mask_selection_rate=1.2"),
        ({"mask_selection_rate": None}, "mask_selection_rate=None"),
        ({"random_token_rate": "0.1"}, "random_token_rate='0.1'"),
        ({"mask_selection_length": 2.5}, "mask_selection_length=2.5"),
        ({"max_ngram": 0}, "max_ngram=0"),
        ({"seed": -1}, "seed=-1"),
        ({"truncate": "middle"}, "'middle'"),
        ({"sequence_length": 3}, "sequence_length=3"),
    ],
)
def test_invalid_arguments_raise(tokenizer, arguments, message):
    with pytest.raises(ValueError, match=message):
        AlbertMaskedLMPreprocessor(tokenizer, **arguments)


@pytest.mark.parametrize("texts", [["a", None], [b"\xff"], [3]])
def test_invalid_texts_name_the_row(preprocessor, texts):
    with pytest.raises(ValueError, match=f"row {len(texts) - 1}"):
        preprocessor(texts)


def test_targets_raise(preprocessor):
    with pytest.raises(ValueError, match="Leave them out"):
        preprocessor(TEXTS, y=list(range(12)))
