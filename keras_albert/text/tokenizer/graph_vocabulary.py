"""The vocabulary for the SentencePiece inside graphs."""

import functools

from keras_albert.text.tokenizer import sentencepiece_proto as sentencepiece_messages
from keras_albert.text.tokenizer.vocabulary_file import parse_vocabulary

__all__ = ["graph_vocabulary"]

# Sums of scores are exact in float32 down to -2,048, some 240 tokens.
_STEPS = 2**13

_NORMAL = sentencepiece_messages.SentencePiece.NORMAL


@functools.lru_cache(maxsize=8)
def graph_vocabulary(proto: bytes) -> bytes:
    """Round a vocabulary's scores, so that most ties are broken as in Python.

    SentencePiece chooses the pieces with the largest sum of scores, and among equal
    sums the one with the longest last piece. It adds in float32. Version 0.1.96, which
    is part of tensorflow-text and onnxruntime-extensions, compares the rounded sum of
    one split with the unrounded sum of another, so that either of `e` + `ee` and `ee` +
    `e` may be larger. Sums of multiples of 1/8,192 are exact.

    The vocabulary in Python keeps its scores, and thus its ids, which are those of
    google-research's code. They depend on rounding too: the same pieces in another
    order may have a sum that differs in the last bit. So ids still differ if the sums
    of two splits differ by no more than a rounding error.

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
