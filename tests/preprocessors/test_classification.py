"""The classifier's preprocessor."""

import keras
import numpy as np
import pytest

from keras_albert import AlbertClassifierPreprocessor, AlbertTokenizer
from keras_albert.preprocessors.preprocessor import default_length_buckets

NAMES = ("padding_mask", "segment_ids", "token_ids")
CLS, SEP = 2, 3


@pytest.fixture(scope="module")
def preprocessor(tiny_proto):
    return AlbertClassifierPreprocessor(
        AlbertTokenizer(tiny_proto), max_sequence_length=64
    )


def assert_equal(packed, expected):
    assert sorted(packed) == sorted(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(np.asarray(packed[name]), array, err_msg=name)


class TestForms:
    def test_one_text_is_packed_without_a_batch_axis(self, preprocessor):
        packed = preprocessor("the old café")
        assert sorted(packed) == list(NAMES)
        length = packed["padding_mask"].sum()
        width = preprocessor.padded_length(length)
        assert {array.shape for array in packed.values()} == {(width,)}
        assert {array.dtype for array in packed.values()} == {np.dtype(np.int32)}
        assert packed["token_ids"][0] == CLS
        assert packed["token_ids"][length - 1] == SEP
        ids = packed["token_ids"][1 : length - 1]
        assert preprocessor.tokenizer.detokenize(ids) == "the old cafe"

    def test_empty_batch(self, preprocessor):
        for empty in ([], np.array([], str), np.empty((0, 2), str)):
            shapes = {rows.shape for rows in preprocessor(empty).values()}
            assert shapes == {(0, preprocessor.padded_length(1))}
        encoded, batched = preprocessor.encode(([], []))
        assert (len(encoded), encoded.texts.num_specials, batched) == (0, 3, True)

    def test_batch_is_padded_to_the_bucket_of_its_longest_row(self, preprocessor):
        buckets = default_length_buckets(64)
        for words in (1, 12, 15, 25, 45, 500):
            width = next(n for n in buckets if n >= min(words + 2, 64))
            packed = preprocessor(["a", "the " * words])
            assert packed["token_ids"].shape == (2, width)


class TestElements:
    """Tuples of texts are pairs; labels and weights follow the texts."""

    @pytest.mark.parametrize(
        "label", [1, [1], np.array([1]), np.float32(0.5), keras.ops.ones(1, "int32")]
    )
    def test_x_and_y(self, preprocessor, label):
        packed, y = preprocessor(["a"], label)
        assert_equal(packed, preprocessor(["a"]))
        assert y is label

    def test_x_y_and_weights(self, preprocessor):
        pair = (["the town"], ["it rained"])
        for x in (["a"], pair):
            for packed, y, weights in (
                preprocessor(x, [1], [0.5]),
                preprocessor(x, y=[1], sample_weight=[0.5]),
            ):
                assert_equal(packed, preprocessor(x))
                assert (y, weights) == ([1], [0.5])

    @pytest.mark.parametrize("labels", ["yes", ["yes"], np.array(["yes"]), [b"yes"]])
    def test_text_labels_raise(self, preprocessor, labels):
        with pytest.raises(
            ValueError, match=r"The labels are texts.*\(first, second\)"
        ):
            preprocessor(["a"], labels)


class TestHardText:
    def test_long_texts_are_truncated(self, preprocessor):
        packed = preprocessor(["a bc d " * 150_000, "x" * 1_000_000])
        assert packed["token_ids"].shape == (2, 64)
        assert packed["token_ids"][0, 63] == SEP
        assert packed["padding_mask"][0].all()


class TestLengths:
    @pytest.mark.parametrize("truncate", ["round_robin", "waterfall"])
    def test_sequence_length_is_fixed(self, preprocessor, truncate):
        fixed = AlbertClassifierPreprocessor(
            preprocessor.tokenizer, sequence_length=9, truncate=truncate
        )
        assert fixed.max_length == 9
        assert fixed("a")["token_ids"].shape == (9,)
        assert fixed([])["token_ids"].shape == (0, 9)
        packed = fixed((["a b c d e f g h"] * 2, ["a b c d e f g h", ""]))
        assert packed["token_ids"].shape == (2, 9)
        first = (packed["segment_ids"] == 0) & (packed["padding_mask"] == 1)
        shares = {"round_robin": [5, 8], "waterfall": [8, 8]}
        assert first.sum(axis=1).tolist() == shares[truncate]

    def test_length_buckets(self, preprocessor):
        own = AlbertClassifierPreprocessor(
            preprocessor.tokenizer, max_sequence_length=20, length_buckets=[99, 12, 6]
        )
        assert [own.padded_length(n) for n in (3, 6, 7, 12, 13, 20)] == [
            *(6, 6, 12, 12, 20, 20)
        ]
        assert own.max_length == 20
