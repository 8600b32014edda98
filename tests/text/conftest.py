"""Tokenizers of small vocabularies, and TensorFlow for the tests of graphs."""

import pytest

from keras_albert import AlbertTokenizer
from tests.word_pieces import word_proto


@pytest.fixture(scope="session")
def tokenizer(tiny_proto):
    return AlbertTokenizer(tiny_proto)


@pytest.fixture(scope="session", params=["sentencepiece", "word piece"])
def any_tokenizer(request, tokenizer):
    is_word_piece = request.param == "word piece"
    return AlbertTokenizer(word_proto()) if is_word_piece else tokenizer


@pytest.fixture(scope="session")
def tf():
    pytest.importorskip("tensorflow_text")
    return pytest.importorskip("tensorflow")
