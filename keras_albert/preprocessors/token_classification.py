"""Preprocessor of the token classifier."""

from typing import Any

import keras
import keras_hub
import numpy as np

from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessors.preprocessor import AlbertPreprocessor
from keras_albert.text.packing import check_counts, distinct
from keras_albert.text.tags import (
    TaggedDocuments,
    join_words,
    split_words,
    word_columns,
    word_tags,
    word_weights,
)
from keras_albert.text.windows import window_stride
from keras_albert.types import Lengths


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTokenClassifierPreprocessor(
    AlbertPreprocessor, keras_hub.models.Preprocessor
):
    """Tokenize words and pack them as `[CLS] words [SEP]`, with a tag for each.

    Each word is tokenized separately, so that its pieces are known; raw texts are
    split into words first (see `split_words`). Words keep their exact offsets in the
    original text. A document of more than `max_sequence_length` tokens is split into
    several rows, overlapping windows; each piece is trained once, in the window in
    which it has the most context.

    Args:
        {shared}
        stride: int or `None`. Distance in pieces between the starts of consecutive
            windows. Defaults to `None`, half a window.
        label_all_pieces: bool. Whether all pieces of a word are trained with its tag,
            and their predictions are averaged. Defaults to `False`, which uses the
            first piece alone.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length leaves no room for a piece, or `stride` is less than 1
            or greater than a window's length.

    Example:
        >>> from keras_albert import AlbertTokenClassifierPreprocessor
        >>> preprocessor = AlbertTokenClassifierPreprocessor.from_preset(
        ...     "albert_tiny_en_uncased", sequence_length=16)
        >>> x, y, weights = preprocessor([["Ada", "lived"]], [[1, 0]])
        >>> x["token_ids"].shape, y[weights > 0]
        ((1, 16), array([1, 0], dtype=int32))
    """

    read_input = staticmethod(word_columns)

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        stride: int | None = None,
        label_all_pieces: bool = False,
        pack_sequences: bool = False,
        **kwargs: Any,
    ) -> None:
        lengths = sequence_length, max_sequence_length, length_buckets
        super().__init__(tokenizer, *lengths, pack_sequences, **kwargs)
        window_stride(stride, self.max_length - 2)
        self.stride = stride
        self.label_all_pieces = label_all_pieces

    def encode(
        self, x: Any, y: Any = None, sample_weight: Any = None
    ) -> tuple[TaggedDocuments, bool]:
        """Tokenize documents into rows: always a batch, since one may have several.

        The targets are an array of tag numbers, one per word, or `SpanTags`, for each
        document.
        """
        (column,), _ = self.columns(x)
        words = [
            split_words(row) if isinstance(row, str) else join_words(row)
            for row in column
        ]
        check_counts(len(words), y, sample_weight)
        tags = None
        if y is not None:
            parts = list(map(word_tags, y, words, range(len(words))))
            tags = np.concatenate(parts) if parts else np.empty(0, np.int32)
        # Each distinct word is tokenized once.
        unique, places = distinct(word for row in words for word in row.words)
        (pieces,) = self.tokenize_columns([unique])
        documents = TaggedDocuments(
            words,
            pieces.take(places),
            self.special_ids,
            self.max_length,
            self.stride,
            self.label_all_pieces,
            tags,
            None if sample_weight is None else word_weights(sample_weight, words),
        )
        return documents, True
