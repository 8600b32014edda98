"""The vocabulary as the SentencePiece inside of graphs is given it."""

import functools

from keras_albert.text.tokenizer import sentencepiece_proto as sentencepiece_messages
from keras_albert.text.tokenizer.vocabulary_file import parse_vocabulary

__all__ = ["graph_vocabulary"]

# Sums of scores are exact in float32 down to -2,048, some 240 tokens.
_STEPS = 2**13

_NORMAL = sentencepiece_messages.SentencePiece.NORMAL


@functools.lru_cache(maxsize=8)
def graph_vocabulary(proto: bytes) -> bytes:
    """Make most ties of a vocabulary break in a graph as they do in Python.

    SentencePiece chooses the pieces whose scores have the largest sum, and of equal
    sums the one whose last piece is longest. It adds in float32. Version 0.1.96, which
    is inside tensorflow-text and onnxruntime-extensions, compares the rounded sum of
    one way with the unrounded sum of another, so that of `e` + `ee` and `ee` + `e` now
    one is larger and now the other. Scores that are multiples of 1/8,192 have sums that
    need no rounding.

    The vocabulary in Python keeps its scores, and so its ids, which are those of
    google-research's code. They depend on rounding too: the same pieces in another
    order may have another sum, by its last bit. So ids still differ where the sums of
    two ways are as near to each other as rounding.

    Args:
        proto: bytes. A SentencePiece model.

    Returns:
        The model with rounded scores.

    Example:
        >>> from keras_albert.text.tokenizer.train_vocabulary import train_vocabulary
        >>> proto = train_vocabulary(["a naïve café"] * 9, vocabulary_size=22)
        >>> pieces = parse_vocabulary(graph_vocabulary(proto)).pieces
        >>> all((piece.score * 8192).is_integer() for piece in pieces)
        True
    """
    model = parse_vocabulary(proto)
    for piece in model.pieces:
        if piece.type == _NORMAL:
            piece.score = round(piece.score * _STEPS) / _STEPS
    return bytes(model.SerializeToString())
