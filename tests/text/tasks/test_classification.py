"""The classifier's preprocessor."""

import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from keras_albert import AlbertBackbone, AlbertClassifierPreprocessor, AlbertTokenizer
from keras_albert.text.batching import bucket_length, default_length_buckets

NAMES = ("padding_mask", "segment_ids", "token_ids")
CLS, SEP = 2, 3

# Any text that UTF-8 can encode.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
property_based = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


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

    # `tests/text/inputs` has all types.
    @pytest.mark.parametrize(
        "given", [[b"the town", "a hill"], np.array([["the town"], ["a hill"]])]
    )
    def test_types_of_texts_are_equal(self, preprocessor, given):
        rows = [preprocessor(text) for text in ("the town", "a hill")]
        stacked = {name: np.stack([row[name] for row in rows]) for name in NAMES}
        assert_equal(preprocessor(given), stacked)

    @pytest.mark.parametrize(
        "given",
        [
            (["the town", "a hill"], ["it rained", "by noon it"]),
            [("the town", "it rained"), ("a hill", "by noon it")],
        ],
    )
    def test_types_of_pairs_are_equal(self, preprocessor, given):
        rows = [
            preprocessor(pair)
            for pair in (("the town", "it rained"), ("a hill", "by noon it"))
        ]
        stacked = {name: np.stack([row[name] for row in rows]) for name in NAMES}
        assert_equal(preprocessor(given), stacked)
        assert (stacked["token_ids"] == SEP).sum(axis=1).tolist() == [2, 2]
        assert stacked["segment_ids"].max(axis=1).tolist() == [1, 1]

    def test_empty_batch(self, preprocessor):
        for empty in ([], np.array([], str), np.empty((0, 2), str)):
            shapes = {rows.shape for rows in preprocessor(empty).values()}
            assert shapes == {(0, preprocessor.padded_length(1))}
        encoded, batched = preprocessor.encode(([], []))
        assert (len(encoded), encoded.texts.num_specials, batched) == (0, 3, True)

    def test_batch_is_padded_to_the_bucket_of_its_longest_row(self, preprocessor):
        buckets = default_length_buckets(64)
        for words in (1, 12, 15, 25, 45, 500):
            width = bucket_length(min(words + 2, 64), buckets)
            packed = preprocessor(["a", "the " * words])
            assert packed["token_ids"].shape == (2, width)


class TestElements:
    """Tuples of texts are pairs; labels and weights follow the texts."""

    @pytest.mark.parametrize(
        "label", [1, [1], np.array([1]), np.float32(0.5), keras.ops.ones(1, "int32")]
    )
    def test_x_and_y(self, preprocessor, label):
        for packed, y in (preprocessor((["a"], label)), preprocessor(["a"], label)):
            assert_equal(packed, preprocessor(["a"]))
            assert y is label

    def test_x_y_and_weights(self, preprocessor):
        pair = (["the town"], ["it rained"])
        for x in (["a"], pair):
            for packed, y, weights in (
                preprocessor((x, [1], [0.5])),
                preprocessor(x, [1], [0.5]),
                preprocessor(x, y=[1], sample_weight=[0.5]),
            ):
                assert_equal(packed, preprocessor(x))
                assert (y, weights) == ([1], [0.5])

    @pytest.mark.parametrize("labels", ["yes", ["yes"], np.array(["yes"]), [b"yes"]])
    def test_text_labels_raise(self, preprocessor, labels):
        with pytest.raises(ValueError, match=r"The labels are texts.*pass one tuple"):
            preprocessor(["a"], labels)
        with pytest.raises(ValueError, match="The labels are texts"):
            preprocessor((["a"], labels, [1.0]))


class TestHardText:
    @pytest.mark.parametrize("text", ["", " ", " \t\n\u2003", "\u200b", "\0", "\u0301"])
    def test_blank_text_has_only_special_tokens(self, preprocessor, text):
        packed = preprocessor(text)
        length = packed["padding_mask"].sum()
        ids = packed["token_ids"][:length].tolist()
        known = set(range(5, preprocessor.tokenizer.vocabulary_size())) | {1}
        assert (ids[0], ids[-1]) == (CLS, SEP)
        assert set(ids[1:-1]) <= known
        assert length <= 4

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

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"sequence_length": 4}, "`sequence_length` must be at least 5.*=4"),
            ({"sequence_length": "8"}, "a whole number. Received: sequence_length='8'"),
            ({"sequence_length": 8.5}, "a whole number. Received: sequence_length=8.5"),
            ({"max_sequence_length": 0}, "`max_sequence_length` must be at least 5"),
            ({"truncate": "middle"}, "Received: truncate='middle'"),
            ({"length_buckets": [0, 8]}, r"Received: length_buckets=\[0, 8\]"),
            ({"length_buckets": [8.5]}, r"Received: length_buckets=\[8.5\]"),
            ({"length_buckets": 16}, r"length_buckets=16. For one length.*sequence_le"),
        ],
    )
    def test_invalid_lengths_raise(self, preprocessor, arguments, message):
        with pytest.raises((ValueError, TypeError), match=message):
            AlbertClassifierPreprocessor(preprocessor.tokenizer, **arguments)


class TestSaving:
    def make(self, tokenizer):
        return AlbertClassifierPreprocessor(
            tokenizer,
            max_sequence_length=40,
            length_buckets=(10, 20),
            truncate="waterfall",
            name="mine",
        )

    def assert_same(self, copy, original):
        for name in ("name", "truncate", "sequence_length", "max_sequence_length"):
            assert getattr(copy, name) == getattr(original, name)
        assert copy.get_config() == original.get_config()
        x = (["The old town, in 2011", "a"], ["it rained " * 30, "b"])
        assert_equal(copy(x), original(x))

    def test_config_round_trip(self, preprocessor):
        original = self.make(preprocessor.tokenizer)
        config = keras.saving.serialize_keras_object(original)
        copy = keras.saving.deserialize_keras_object(config)
        # The config does not contain the vocabulary, which is saved separately.
        copy.tokenizer.set_proto(preprocessor.tokenizer.proto)
        self.assert_same(copy, original)

    @pytest.mark.parametrize("length", [None, 24])
    def test_preset_round_trip(self, preprocessor, tmp_path, length):
        original = self.make(preprocessor.tokenizer)
        original.sequence_length = length
        # KerasHub finds the class through the backbone's config.
        AlbertBackbone(130, 1, 2, 4, 8, 16).save_to_preset(tmp_path / "preset")
        original.save_to_preset(tmp_path / "preset")
        copy = AlbertClassifierPreprocessor.from_preset(tmp_path / "preset")
        self.assert_same(copy, original)
        longer = AlbertClassifierPreprocessor.from_preset(
            tmp_path / "preset", sequence_length=33
        )
        assert longer("a")["token_ids"].shape == (33,)
