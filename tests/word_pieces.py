"""A small WordPiece vocabulary, with ALBERT's order of special tokens."""

from keras_albert import AlbertTokenizer
from keras_albert.text.tokenizer.word_piece import WordPieceRules

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789\u1112\u1161ß漢"
WORDS = "the river runs through town and captain said not today wind comes in cafe mask"
WORD_PIECES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##ver", "##ing"),
    *WORDS.split(),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS),
    *"'.,-[]?",
]


def word_proto():
    """Return the bytes of the vocabulary."""
    proto: bytes = AlbertTokenizer(WORD_PIECES, WordPieceRules()).proto
    return proto
