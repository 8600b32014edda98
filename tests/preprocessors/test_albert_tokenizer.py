import keras
import numpy as np
import pytest

from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.text.packing import TokenRows


@pytest.fixture(scope="module")
def in_graph(tokenizer):
    """Return a function that tokenizes in a TensorFlow graph and returns lists."""
    tf = pytest.importorskip("tensorflow")
    pytest.importorskip("tensorflow_text")

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def traced(texts):
        return tokenizer.tokenize(texts), tokenizer.tokenize_with_offsets(texts)

    def run(texts):
        ids, with_offsets = traced(tf.constant(texts, tf.string))
        return ids.to_list(), [ragged.to_list() for ragged in with_offsets]

    return run


# Ids and offsets of any text.


def test_offsets_count_characters_of_the_original_text(tokenizer):
    text = "  The  CAFÉ on the cafe\u0301… 12,"
    ids, starts, ends = tokenizer.tokenize_with_offsets(text)
    slices = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    assert slices[0] == "The"
    assert "".join(slices) == "".join(text.split())
    assert not any(piece[:1].isspace() for piece in slices)
    assert ids.tolist() == tokenizer.tokenize(text).tolist()


def test_long_text(tokenizer, in_graph):
    text = "The  café, [SEP] \U0001f600 naïve\u0301. " * 40_000
    (row,) = tokenizer.tokenize_rows([text]).to_lists()
    ids, starts, ends = tokenizer.tokenize_with_offsets(text)
    assert ids.tolist() == row
    assert text[starts[-1] : ends[-1]] == "."
    graph_ids, (_, graph_starts, graph_ends) = in_graph([text, "a"])
    assert graph_ids[0] == row
    assert graph_starts[0] == starts.tolist()
    assert graph_ends[0] == ends.tolist()


def test_graph_with_one_text_and_with_a_data_set(tokenizer):
    tf = pytest.importorskip("tensorflow")
    text = "the naïve café"
    expected = tokenizer(text).tolist()
    data = tf.data.Dataset.from_tensor_slices([text])
    assert next(iter(data.map(tokenizer))).numpy().tolist() == expected
    rows = next(iter(data.map(tokenizer.tokenize_with_offsets)))
    arrays = tokenizer.tokenize_with_offsets(text)
    for row, array in zip(rows, arrays, strict=True):
        np.testing.assert_array_equal(row.numpy(), array)
    assert next(iter(data.batch(1).map(tokenizer))).to_list() == [expected]


@pytest.mark.parametrize("method", ["tokenize", "tokenize_with_offsets"])
def test_graph_refuses_what_is_not_utf8(tokenizer, method):
    tf = pytest.importorskip("tensorflow")
    data = tf.data.Dataset.from_tensor_slices(["café", "café".encode("latin-1")])
    data = data.batch(2).map(getattr(tokenizer, method))
    with pytest.raises(tf.errors.InvalidArgumentError, match="row 1 of texts is not"):
        next(iter(data))


def test_all_types_are_equal(tokenizer):
    expected = tokenizer(["the café", "a"])
    assert tokenizer(("the café", b"a")) == expected
    assert tokenizer(np.array(["the café", "a"])) == expected
    assert tokenizer([]) == []
    one = tokenizer("the café")
    assert isinstance(one, np.ndarray)
    assert one.dtype == np.int32
    assert one.tolist() == expected[0]
    assert tokenizer.tokenize_rows([]).to_lists() == []
    ids, _, _ = tokenizer.tokenize_with_offsets(["the café", "a"])
    assert [row.tolist() for row in ids] == expected


def test_sequence_length_and_string_dtype(tiny_proto):
    dense = AlbertTokenizer(tiny_proto, sequence_length=4)(
        ["the", "the the the the the"]
    )
    assert dense.shape == (2, 4)
    assert dense[0, -1] == 0
    pieces = AlbertTokenizer(tiny_proto, dtype="string")(["The the"])
    assert pieces == [["▁the", "▁the"]]


def test_invalid_rows_raise(tokenizer):
    for method in (
        tokenizer,
        tokenizer.tokenize,
        tokenizer.tokenize_rows,
        tokenizer.tokenize_with_offsets,
    ):
        with pytest.raises(ValueError, match="row 1 of texts is None"):
            method(["a", None])
        with pytest.raises(ValueError, match="row 0 of texts has a lone surrogate"):
            method(["\ud800"])


# Ids to texts.


def test_detokenize(tokenizer):
    ids = tokenizer("The café (in 2011)").tolist()
    text = "the cafe (in 2011)"
    row = [2, *ids, 3, 0, 0]
    assert tokenizer.detokenize(ids) == text
    assert tokenizer.detokenize(row) == text
    assert tokenizer.detokenize(np.array([row, row])) == [text, text]
    assert tokenizer.detokenize([row, [], [4]]) == [text, "", ""]
    assert tokenizer.detokenize([np.array(row), np.array(ids)]) == [text, text]
    assert tokenizer.detokenize(keras.ops.array([row])) == [text]
    assert tokenizer.detokenize([np.int32(ids[0])]) == "the"
    assert tokenizer.detokenize(ids[0]) == "the"
    assert tokenizer.detokenize(TokenRows.from_lists([row, ids])) == [text, text]
    assert "⁇" in tokenizer.detokenize([1])


def test_detokenize_in_tensorflow(tokenizer):
    tf = pytest.importorskip("tensorflow")
    ids = tokenizer(["The café", "a"])
    ragged = tf.ragged.constant(ids)
    assert tokenizer.detokenize(ragged) == ["the cafe", "a"]
    graph = tf.function(tokenizer.detokenize)(ragged)
    assert [row.decode() for row in graph.numpy()] == ["the cafe", "a"]


@pytest.mark.parametrize("token_id", [-1, 130])
def test_detokenize_raises_for_ids_out_of_range(tokenizer, token_id):
    with pytest.raises(ValueError, match=rf"row 1.*{token_id}.*0 to 129"):
        tokenizer.detokenize([[5], [6, token_id]])


# transformers' four methods; the expected values are the documented formats.


def test_methods_of_transformers(tokenizer):
    assert tokenizer.build_inputs_with_special_tokens([7, 8]) == [2, 7, 8, 3]
    pair = tokenizer.build_inputs_with_special_tokens([7, 8], [9])
    assert pair == [2, 7, 8, 3, 9, 3]
    assert tokenizer.create_token_type_ids_from_sequences([7, 8]) == [0] * 4
    types = tokenizer.create_token_type_ids_from_sequences([7, 8], [9])
    assert types == [0, 0, 0, 0, 1, 1]
    assert tokenizer.get_special_tokens_mask([7, 8]) == [1, 0, 0, 1]
    assert tokenizer.get_special_tokens_mask([7, 8], [9]) == [1, 0, 0, 1, 0, 1]
    mask = tokenizer.get_special_tokens_mask(pair, already_has_special_tokens=True)
    assert mask == [1, 0, 0, 1, 0, 1]
    with pytest.raises(ValueError, match="pass the whole row"):
        tokenizer.get_special_tokens_mask([2], [3], already_has_special_tokens=True)


def test_save_vocabulary(tokenizer, tmp_path):
    (path,) = tokenizer.save_vocabulary(tmp_path / "new")
    assert path == str(tmp_path / "new" / "spiece.model")
    assert AlbertTokenizer(path).proto == tokenizer.proto
    (prefixed,) = tokenizer.save_vocabulary(str(tmp_path), "tiny")
    assert prefixed == str(tmp_path / "tiny-spiece.model")


@pytest.mark.parametrize("length", [0, -1, 2.5, "5"])
def test_a_wrong_sequence_length_is_refused(tiny_proto, length):
    with pytest.raises(ValueError, match="`sequence_length` must be a whole number"):
        AlbertTokenizer(tiny_proto, sequence_length=length)
