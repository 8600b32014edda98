"""The vocabulary for the SentencePiece inside graphs."""

import functools

from keras_albert.text.tokenizer import sentencepiece_proto as sentencepiece_messages
from keras_albert.text.tokenizer.vocabulary_file import parse_vocabulary

__all__ = ["graph_vocabulary"]

# Sums of scores are exact in float32 down to -2,048, some 240 tokens.
_STEPS = 2**13

_PIECE = sentencepiece_messages.SentencePiece

_BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))


@functools.lru_cache(maxsize=8)
def graph_vocabulary(proto: bytes, with_bytes: bool = True) -> bytes:
    """Adapt a vocabulary, so that graphs return Python's ids, and in linear time.

    tensorflow-text and onnxruntime-extensions contain SentencePiece 0.1.96, which joins
    the characters of an unknown piece in quadratic time. With byte pieces, it returns
    the bytes of unknown characters instead. Their ids are the first ones after those of
    the vocabulary, and the graph replaces each run of them by one `<unk>`.

    SentencePiece chooses the pieces with the largest sum of scores, and among equal
    sums the one with the longest last piece. It adds in float32. Version 0.1.96
    compares the rounded sum of one split with the unrounded sum of another, so that
    either of `e` + `ee` and `ee` + `e` may be larger. Sums of multiples of 1/8,192 are
    exact.

    The vocabulary in Python keeps its scores, and thus its ids, which are those of
    google-research's code. They depend on rounding too: the same pieces in another
    order may have a sum that differs in the last bit. So ids still differ if the sums
    of two splits differ by no more than a rounding error.

    Args:
        proto: bytes. A SentencePiece model.
        with_bytes: bool. Whether to add byte pieces. A vocabulary that has one keeps
            its pieces. Defaults to `True`.

    Returns:
        The changed model.

    Example:
        >>> from keras_albert.text.tokenizer.train_vocabulary import train_vocabulary
        >>> proto = train_vocabulary(["a naïve café"] * 9, vocabulary_size=22)
        >>> pieces = parse_vocabulary(graph_vocabulary(proto)).pieces
        >>> all((piece.score * 8192).is_integer() for piece in pieces)
        True
        >>> len(pieces), pieces[22].piece
        (278, '<0x00>')
    """
    model = parse_vocabulary(proto)
    for piece in model.pieces:
        if piece.type == _PIECE.NORMAL:
            piece.score = round(piece.score * _STEPS) / _STEPS
    if with_bytes and {piece.piece for piece in model.pieces}.isdisjoint(_BYTES):
        model.trainer_spec.byte_fallback = True
        for name in _BYTES:
            model.pieces.add(piece=name, type=_PIECE.BYTE)
    return bytes(model.SerializeToString())
