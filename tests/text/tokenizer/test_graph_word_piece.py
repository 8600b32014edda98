import pytest
from hypothesis import example, given, settings

from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer
from keras_albert.text.tokenizer.word_piece import (
    ALONE,
    DROPPED,
    IN_WORD,
    SPACE,
    WordPieceRules,
    character_table,
)
from tests.property.strange_texts import TEXTS
from tests.text.tokenizer.test_albert_tokenizer import hard_texts
from tests.text.tokenizer.test_word_piece import PIECES, RULES

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")


def graph_of(tokenizer):
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def traced(texts):
        return tokenizer.tokenize(texts), tokenizer.tokenize_with_offsets(texts)

    return traced


TOKENIZERS = [AlbertTokenizer(PIECES, rules) for rules in RULES]
GRAPHS = [graph_of(tokenizer) for tokenizer in TOKENIZERS]


@pytest.mark.parametrize("number", range(len(RULES)))
@settings(deadline=None, max_examples=60)
@given(text=TEXTS)
@example("".join(hard_texts))
@example(" ".join(hard_texts))
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


def test_characters():
    table = character_table(WordPieceRules())
    found = [table.entry(ord(character)) for character in "aÉ漢,\u00a0\u200b|가"]
    assert found == [
        *((IN_WORD, "a"), (IN_WORD, "e"), (ALONE, "漢"), (ALONE, ",")),
        *((SPACE, ""), (DROPPED, ""), (ALONE, "|"), (IN_WORD, "\u1100\u1161")),
    ]
    cased = character_table(WordPieceRules(lowercase=False, split_cjk=False))
    assert [cased.entry(ord(c)) for c in "É漢"] == [(IN_WORD, "É"), (IN_WORD, "漢")]
