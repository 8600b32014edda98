"""Preprocessor of the token classifier."""

from typing import Any

import keras
import keras_hub
import numpy as np

from keras_albert.text.packing.examples import check_counts
from keras_albert.text.packing.windows import window_stride
from keras_albert.text.preprocessor import AlbertPreprocessor
from keras_albert.text.token_classification.align_tags import word_tags, word_weights
from keras_albert.text.token_classification.examples import TaggedDocuments
from keras_albert.text.token_classification.words import (
    WordRow,
    read_word_rows,
    word_columns,
)
from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer
from keras_albert.text.tokenizer.token_rows import TokenRows
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
        tokenizer: An `AlbertTokenizer`, cased or uncased.
        sequence_length: int or `None`. A fixed length that all batches are padded
            to. Defaults to `None`, which pads to the smallest of `length_buckets` that
            fits the batch's longest row.
        max_sequence_length: int. The maximum length of a row if `sequence_length` is
            `None`. Defaults to `512`.
        length_buckets: Sequence of int or `None`. The lengths that batches are
            padded to. Defaults to `None`, see `default_length_buckets`.
        stride: int or `None`. Distance in pieces between the starts of consecutive
            windows. Defaults to `None`, half a window.
        label_all_pieces: bool. Whether all pieces of a word are trained with its tag,
            and their predictions are averaged. Defaults to `False`, which uses the
            first piece alone.
        share_rows: bool. See `AlbertClassifierPreprocessor`. Defaults to `False`.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length leaves no room for a piece, or `stride` is less than 1
            or greater than a window's length.

    Example:
        >>> from keras_albert import AlbertTokenClassifierPreprocessor, AlbertTokenizer
        >>> from keras_albert.text import train_vocabulary
        >>> texts = ["Ada lived in London"] * 9
        >>> tokenizer = AlbertTokenizer(train_vocabulary(texts, vocabulary_size=22))
        >>> preprocessor = AlbertTokenClassifierPreprocessor(
        ...     tokenizer, sequence_length=16)
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
        share_rows: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            *(tokenizer, sequence_length, max_sequence_length, length_buckets),
            share_rows=share_rows,
            **kwargs,
        )
        window_stride(stride, self.max_length - 2)
        self.stride = stride
        self.label_all_pieces = label_all_pieces

    def encode(
        self, x: Any, y: Any = None, sample_weight: Any = None
    ) -> tuple[TaggedDocuments, bool]:
        """Tokenize documents; see `AlbertPreprocessor.encode`.

        The targets are an array of tag numbers, one per word, or `SpanTags` for each
        document. The result is always a batch, since a document may have several rows.
        """
        (column,), _ = self.columns(x)
        words = read_word_rows(column)
        check_counts(len(words), y, sample_weight)
        tags = None
        if y is not None:
            parts = [
                word_tags(target, row, number)
                for number, (target, row) in enumerate(zip(y, words, strict=True))
            ]
            tags = np.concatenate(parts) if parts else np.empty(0, np.int32)
        documents = TaggedDocuments(
            words,
            self._tokenize_words(words),
            self.special_ids,
            self.max_length,
            self.stride,
            self.label_all_pieces,
            tags,
            None if sample_weight is None else word_weights(sample_weight, words),
        )
        return documents, True

    def _tokenize_words(self, rows: list[WordRow]) -> TokenRows:
        """Tokenize the words of all documents, each distinct word once."""
        numbers: dict[str, int] = {}
        places = [
            numbers.setdefault(word, len(numbers)) for row in rows for word in row.words
        ]
        words: TokenRows = self.tokenizer.tokenize_rows(list(numbers), checked=True)
        return words.take(places)

    def split_element(self, element: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        """Split one element of a data set; there are no pairs of texts here."""
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(element)
        return x, y, sample_weight

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config = super().get_config()
        config.update(stride=self.stride, label_all_pieces=self.label_all_pieces)
        return config
