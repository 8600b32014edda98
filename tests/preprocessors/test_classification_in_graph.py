"""The preprocessor inside TensorFlow graphs: `tf.data` and `tf.function`."""

import itertools

import pytest

from keras_albert import AlbertClassifierPreprocessor, AlbertTokenizer
from tests.one_backend import on_one_backend
from tests.preprocessors.test_classification import assert_equal

pytestmark = on_one_backend


@pytest.fixture(scope="module")
def preprocessor(tiny_proto):
    return AlbertClassifierPreprocessor(
        AlbertTokenizer(tiny_proto), max_sequence_length=64
    )


def test_maps_over_all_types_of_elements(tf, preprocessor):
    first, second = ["the town", "a"], ["it rained", "by noon " * 9]
    y, weights = [1, 0], [0.5, 2.0]
    pair = (first, second)
    for x, labels in itertools.product((first, pair), ((), (y,), (y, weights))):
        element = (x, *labels)
        expected = preprocessor(x)
        elements = tf.data.Dataset.from_tensor_slices(element)
        (batch,) = elements.batch(2).map(preprocessor)
        packed, *rest = batch if labels else (batch,)
        assert_equal(packed, expected)
        assert [part.numpy().tolist() for part in rest] == list(labels)
        # Without batches, each row is padded to its own bucket.
        for row, one in enumerate(elements.map(preprocessor)):
            packed = one[0] if labels else one
            width = packed["token_ids"].shape[0]
            assert width == preprocessor.padded_length(width)
            cut = {name: ids[row, :width] for name, ids in expected.items()}
            assert_equal(packed, cut)
            assert not expected["padding_mask"][row, width:].any()


def test_graph_has_static_sequence_length(tf, preprocessor):
    fixed = AlbertClassifierPreprocessor(preprocessor.tokenizer, sequence_length=9)
    elements = tf.data.Dataset.from_tensor_slices(["a b", "c"])
    one = elements.map(fixed).element_spec["token_ids"].shape
    many = elements.batch(2).map(fixed).element_spec["token_ids"].shape
    assert (tuple(one), tuple(many)) == ((9,), (None, 9))


def test_sequence_length_of_tokenizer_truncates_each_text(tf, tiny_proto, preprocessor):
    first, second = ["the old café of the town", "a b"], ["it rained", ""]
    short = AlbertClassifierPreprocessor(
        AlbertTokenizer(tiny_proto, sequence_length=3), sequence_length=16
    )
    packed = short((first, second))
    for row, pair in enumerate(zip(first, second, strict=True)):
        ids = [preprocessor.tokenizer(text)[:3].tolist() for text in pair]
        expected = preprocessor.tokenizer.build_inputs_with_special_tokens(*ids)
        # Nothing is padded between the texts.
        assert packed["token_ids"][row].tolist()[: len(expected)] == expected
        assert packed["padding_mask"][row].sum() == len(expected)
    elements = tf.data.Dataset.from_tensor_slices((first, second)).batch(2)
    mapped = elements.map(lambda *texts: short(texts))
    assert_equal(mapped.get_single_element(), packed)


def test_text_labels_raise_in_graph(tf, preprocessor):
    elements = tf.data.Dataset.from_tensor_slices((["a"], ["yes"], [1.0]))
    with pytest.raises(ValueError, match="The labels are texts"):
        elements.batch(1).map(preprocessor)


def test_graph_works_after_setting_a_seed(tf, preprocessor):
    texts = ["the old café", "it rained"]
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(2).map(preprocessor)
    assert_equal(next(iter(dataset)), preprocessor(texts))
    # Setting a seed clears TensorFlow's kernels and their resources.
    tf.random.set_seed(1)
    assert_equal(next(iter(dataset)), preprocessor(texts))
    again = tf.data.Dataset.from_tensor_slices(texts).batch(2).map(preprocessor)
    assert_equal(next(iter(again)), preprocessor(texts))


def test_module_with_preprocessor_can_be_saved(tf, preprocessor, tmp_path):
    module = tf.Module()
    column = tf.TensorSpec((None,), tf.string)
    module.preprocess = tf.function(preprocessor, input_signature=[column])
    tf.saved_model.save(module, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    packed = loaded.preprocess(tf.constant(["the old café"]))
    assert_equal(packed, preprocessor(["the old café"]))
