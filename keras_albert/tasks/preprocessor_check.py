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
