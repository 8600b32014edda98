"""Parts of graphs compute the same as their counterparts in Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert import AlbertTokenizer
from keras_albert.text.masking import tokenize_masks
from keras_albert.text.tags import SCHEMES, Span, spans_to_tags, split_words
from keras_albert.text.windows import OverlappingWindows

tf = pytest.importorskip("tensorflow")
tf_text = pytest.importorskip("tensorflow_text")

# TensorFlow runs each operation by itself.
few = settings(deadline=None, max_examples=50)
STRANGE = "aZ9_ \t\n.,'-é\u0301\u200b\u200d\ufe0f👩🏽🇬🇧🇫日本สวั½´\u00ad\u3099が"  # noqa: RUF001


def test_a_rank_is_checked_in_the_graph():
    """A server passes inputs of any shape."""
    from keras_albert.exports.saved_model.graph import check_rows

    spec = tf.TensorSpec((None,), tf.string, "text")

    @tf.function(input_signature=[tf.TensorSpec(None, tf.string)])
    def check(text):
        return check_rows([text], [spec])

    assert check(tf.constant(["a", "b"]))[0].shape == (2,)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"expected shape \[\?\]"):
        check(tf.constant([["a", "b"]]))


@few
@given(st.lists(st.text(STRANGE) | st.text(), max_size=4))
def test_words(texts):
    from keras_albert.exports.saved_model.documents import find_words

    words = find_words(tf.constant(texts, tf.string))
    starts = words.in_text(words.starts, words.texts).numpy()
    ends = words.in_text(words.ends, words.texts).numpy()
    found = [
        [texts[row][start:end] for start, end in zip(starts[at], ends[at], strict=True)]
        for row in range(len(texts))
        for at in [np.flatnonzero(words.texts.numpy() == row)]
    ]
    assert found == [split_words(text).words for text in texts]
    cut = [word.decode() for word in words.cut(words.starts, words.ends).numpy()]
    assert cut == [word for row in found for word in row]


@few
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=5), st.data()
)
def test_windows(documents, data):
    from keras_albert.exports.saved_model.graph import WindowGraph

    lengths, sizes = np.array(documents, np.int64).reshape(-1, 2).T
    strides = [data.draw(st.integers(1, size)) for size in sizes.tolist()]
    strides = np.array(strides, np.int64)
    expected = OverlappingWindows(lengths, sizes, strides)
    windows = WindowGraph(*map(tf.constant, (lengths, sizes, strides)))
    tokens = tf.range(int(lengths.sum()) + 1)
    assert windows.take(tokens).to_list() == expected.tokens.to_lists()
    np.testing.assert_array_equal(windows.documents, expected.documents)
    places, is_owned = windows.places(tf.ones_like(windows.starts), 14)
    owned = expected.tokens.values[expected.owned]
    np.testing.assert_array_equal(places[is_owned], owned)


@few
@given(st.lists(st.text("_ab é") | st.just("__")), st.integers(0, 3), st.data())
def test_choices_in_questions(questions, count, data):
    from keras_albert.exports.saved_model.tasks import fill_in

    choices = [[data.draw(st.text("x_")) for _ in range(count)] for _ in questions]
    found = fill_in(
        tf.constant(questions, tf.string),
        tf.reshape(tf.constant(choices, tf.string), (len(questions), count)),
    )
    assert [[text.decode() for text in row] for row in found.numpy().tolist()] == [
        [q.replace("_", c) if "_" in q else f"{q} {c}" for c in row]
        for q, row in zip(questions, choices, strict=True)
    ]


@pytest.fixture(scope="module")
def tokenizers(tiny_proto):
    tokenizer = AlbertTokenizer(tiny_proto)
    sentence_piece = tf_text.SentencepieceTokenizer(tokenizer.proto, out_type=tf.int32)
    return sentence_piece, tokenizer


@few
@given(
    texts=st.lists(
        st.lists(st.sampled_from(["[MASK]", " ", "the", "s", "\u2003", "É", "\u200b"]))
    )
)
def test_masks(texts, tokenizers):
    from keras_albert.exports.saved_model.tasks import tokenize_masks_in_graph

    texts = ["".join(parts) for parts in texts]
    found = tokenize_masks_in_graph(*tokenizers, tf.constant(texts, tf.string))
    assert found.to_list() == tokenize_masks(tokenizers[1].vocabulary, texts).to_lists()


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if s != "IO"])
def test_marks_of_tags(scheme):
    """The first, inner and last word of an entity, adjacent to another one or not."""
    from keras_albert.exports.saved_model.documents import mark_of

    for adjoins in (0, 1):
        for length in (1, 2, 3):
            spans = [Span(adjoins, adjoins + length, "x")]
            spans += [Span(0, 1, "x")] * adjoins
            tags = spans_to_tags(spans, adjoins + length, scheme)[adjoins:]
            assert tags == [
                mark_of(scheme, adjoins, place == 0, place == length - 1) + "x"
                for place in range(length)
            ]
