"""Whether a preprocessor and a backbone fit each other."""

from typing import Any

from keras_albert.backbone.albert_backbone import AlbertBackbone


def check_preprocessor(backbone: AlbertBackbone, preprocessor: Any) -> None:
    """Find a preprocessor whose output the backbone cannot read.

    Args:
        backbone: An `AlbertBackbone`.
        preprocessor: A preprocessor, or `None`.

    Raises:
        ValueError: If its rows are too long, or its vocabulary too large.
    """
    if preprocessor is None:
        return
    if preprocessor.max_length > backbone.max_sequence_length:
        msg = (
            f"The preprocessor makes rows of up to {preprocessor.max_length} tokens, "
            f"and the backbone reads {backbone.max_sequence_length}. Build the "
            f"preprocessor with max_sequence_length={backbone.max_sequence_length}."
        )
        raise ValueError(msg)
    if preprocessor.tokenizer.proto is None:
        return
    size = preprocessor.tokenizer.vocabulary_size()
    if size > backbone.vocabulary_size:
        msg = (
            f"The vocabulary has {size} tokens, and the backbone embeds "
            f"{backbone.vocabulary_size}. Use the vocabulary that the backbone was "
            "made with."
        )
        raise ValueError(msg)


# Embeddings may be padded, to a multiple of this at most.
_PADDING = 128


def check_vocabulary_size(
    backbone: AlbertBackbone, tokenizer: Any, source: str
) -> None:
    """Find a vocabulary that a checkpoint's embeddings were not made for.

    Args:
        backbone: An `AlbertBackbone`.
        tokenizer: An `AlbertTokenizer` with a vocabulary.
        source: string. The checkpoint that both are from.

    Raises:
        ValueError: If it has more tokens than are embedded, or fewer by more than
            padding accounts for.
    """
    size, embedded = tokenizer.vocabulary_size(), backbone.vocabulary_size
    if not embedded - _PADDING < size <= embedded:
        msg = (
            f"The vocabulary in {source} has {size:,} tokens, and its weights embed "
            f"{embedded:,}: they are not of the same checkpoint. Copy the vocabulary "
            "there that belongs to the weights, or pass a `preprocessor` with it."
        )
        raise ValueError(msg)
