"""Graphs return Python's ids; SentencePiece's break most ties as Python does."""

import string

import pytest
from hypothesis import example, given, settings

from keras_albert import AlbertTokenizer
from keras_albert.text.tokenizer.sentencepiece_file import (
    graph_vocabulary,
    parse_vocabulary,
)
from tests.property.strange_texts import HARD_TEXTS, TEXTS
from tests.text.tokenizer.test_word_piece import PIECES, RULES

tf = pytest.importorskip("tensorflow")
tf_text = pytest.importorskip("tensorflow_text")


@pytest.fixture(scope="module")
def tokenizer():
    """Return the tokenizer of the built-in preset."""
    return AlbertTokenizer.from_preset("albert_tiny_en_uncased")


def in_graph(tokenizer, texts):
    return tf.function(tokenizer.tokenize_rows)(tf.constant(texts)).to_list()


def test_rounded_scores_reduce_different_ties(tokenizer):
    runs = [c * n for c in string.ascii_lowercase + string.digits for n in range(1, 13)]
    texts = runs + [f"call {run} now" for run in runs]
    expected = tokenizer(texts)
    plain = tf_text.SentencepieceTokenizer(tokenizer.proto).tokenize(texts).to_list()
    found = in_graph(tokenizer, texts)
    pairs = list(zip(texts, expected, plain, found, strict=True))
    before = {text for text, ours, other, _ in pairs if ours != other}
    after = {text for text, ours, _, other in pairs if ours != other}
    assert {"eee", "00000"} <= set(texts) - after
    assert len(after) < len(before), (len(after), len(before))


def test_unknown_characters_are_not_merged(tiny_proto):
    """Version 0.1.96 would copy a run once for each of its characters."""
    size = len(parse_vocabulary(tiny_proto).pieces)
    graph = tf_text.SentencepieceTokenizer(graph_vocabulary(tiny_proto))
    for text in ("漢" * 1000, "\0" * 3000):
        _, *ids = graph.tokenize(text).numpy().tolist()
        assert ids == [size + byte for byte in text.encode()]


def test_vocabulary_with_byte_pieces_keeps_them(tiny_proto):
    model = parse_vocabulary(tiny_proto)
    model.pieces[-1].piece = "<0x41>"
    kept = parse_vocabulary(graph_vocabulary(model.SerializeToString()))
    assert [p.piece for p in kept.pieces] == [p.piece for p in model.pieces]
    assert not kept.trainer_spec.byte_fallback
    # With all of them, no character is unknown.
    model = parse_vocabulary(graph_vocabulary(tiny_proto))
    tokenizer = AlbertTokenizer(model.SerializeToString())
    texts = ["the 漢字 \0\0", "漢"]
    assert in_graph(tokenizer, texts) == tokenizer(texts)


def graph_of(tokenizer):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def traced(texts):
        return tokenizer.tokenize(texts), tokenizer.tokenize_with_offsets(texts)

    return traced


TOKENIZERS = [AlbertTokenizer(PIECES, rules) for rules in RULES]
GRAPHS = [graph_of(tokenizer) for tokenizer in TOKENIZERS]


@pytest.mark.parametrize("number", range(len(RULES)))
@settings(deadline=None, max_examples=20)
@given(text=TEXTS)
@example("".join(HARD_TEXTS))
@example(" ".join(HARD_TEXTS))
@example("가각힣 é\u0301\u200bx \u3000漢字caf\u00e9 [E1] [e1]")
@example("a" * 101 + " " + "é" * 100 + "é" * 101)
@example("İSTANBUL ǅ Σίσυφος ﬁ ½ \ufffd\ue000 the\u0378river")
def test_graph_and_python_are_equal(number, text):
    texts = ["the river", text, "", text]
    ids, with_offsets = GRAPHS[number](tf.constant(texts))
    tokenizer = TOKENIZERS[number]
    assert ids.to_list() == tokenizer.tokenize(texts)
    expected = tokenizer.tokenize_with_offsets(texts)
    found = [ragged.to_list() for ragged in with_offsets]
    assert found == [[row.tolist() for row in rows] for rows in expected]


def test_shapes_and_pieces():
    tokenizer = TOKENIZERS[0]
    one = tf.function(tokenizer.tokenize)(tf.constant("the café"))
    assert one.numpy().tolist() == tokenizer("the café").tolist()
    assert tf.function(tokenizer.tokenize)(tf.constant([], tf.string)).to_list() == []
    strings = AlbertTokenizer(PIECES, dtype="string")
    found = tf.function(strings.tokenize)(tf.constant(["the a"]))
    assert found.to_list() == [[b"the", b"a"]]
    ids = tokenizer(["the café, naive!", ""])
    texts = tf.function(tokenizer.detokenize)(tf.ragged.constant(ids))
    assert [text.decode() for text in texts.numpy()] == tokenizer.detokenize(ids)
