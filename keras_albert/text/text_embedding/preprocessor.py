"""Preprocessor of the text embedder."""

from typing import Any

import keras
import keras_hub
import numpy as np

from keras_albert.text.packing.examples import LabelledTexts
from keras_albert.text.packing.pack import EncodedTexts
from keras_albert.text.preprocessor import AlbertPreprocessor
from keras_albert.types import Int64Array, IntArray, Texts


class SeparateTexts:
    """Examples of one or several texts, packed as separate rows.

    Args:
        columns: `EncodedTexts` of single texts, one per column, of equal length.

    Example:
        >>> from keras_albert.text import TokenRows
        >>> from keras_albert.text.packing.pack import SpecialIds
        >>> first, second = (
        ...     EncodedTexts((TokenRows.from_lists([ids]),), SpecialIds(2, 3, 0), 8)
        ...     for ids in ([7, 8], [9]))
        >>> pairs = SeparateTexts((first, second))
        >>> pairs.pack(np.array([0]), 4)["token_ids"].tolist()
        [[[2, 7, 8, 3], [2, 9, 3, 0]]]
    """

    def __init__(self, columns: tuple[EncodedTexts, ...]) -> None:
        self.columns = columns
        self.text_lengths: Int64Array = np.stack([c.lengths for c in columns], axis=1)
        self.lengths: Int64Array = self.text_lengths.max(axis=1)

    def __len__(self) -> int:
        return len(self.columns[0])

    def pack(self, indices: Int64Array, length: int) -> dict[str, IntArray]:
        """Pack some examples; see `Examples`.

        Returns:
            `token_ids`, `segment_ids` and `padding_mask`, int32 `(batch, length)`, or
            `(batch, texts, length)` if an example has several texts.
        """
        packed = [column.pack(indices, length) for column in self.columns]
        if len(packed) == 1:
            return packed[0]
        return {
            name: np.stack([texts[name] for texts in packed], axis=1)
            for name in packed[0]
        }


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTextEmbedderPreprocessor(
    AlbertPreprocessor, keras_hub.models.TextEmbedderPreprocessor
):
    """Tokenize texts and pack each as `[CLS] text [SEP]`.

    The two texts of a pair, on which an embedder is trained, are packed as separate
    rows and do not attend to each other.

    Args:
        tokenizer: An `AlbertTokenizer`.
        sequence_length: int or `None`. A fixed length that all batches are padded
            to, as TPUs require. Defaults to `None`, which pads to the smallest of
            `length_buckets` that fits the batch's longest row.
        max_sequence_length: int. The length that rows are truncated to if
            `sequence_length` is `None`. Defaults to `512`.
        length_buckets: Sequence of int or `None`. The lengths that batches are
            padded to. Defaults to `None`, see `default_length_buckets`.
        share_rows: bool. See `AlbertClassifierPreprocessor`. Defaults to `False`.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length leaves no room for a token, or a bucket is not a valid
            length.

    Example:
        >>> from keras_albert import AlbertTextEmbedderPreprocessor, AlbertTokenizer
        >>> from keras_albert.text import train_vocabulary
        >>> words = ["the quick brown fox", "jumped over the lazy dog"] * 20
        >>> tokenizer = AlbertTokenizer(train_vocabulary(words, vocabulary_size=40))
        >>> preprocessor = AlbertTextEmbedderPreprocessor(tokenizer, sequence_length=16)
        >>> preprocessor(["the fox", "the dog", "a fox"])["token_ids"].shape
        (3, 16)
        >>> pairs = (["the fox", "the dog", "a fox"], ["fox", "dog", "the fox"])
        >>> preprocessor(pairs)["token_ids"].shape
        (3, 2, 16)
    """

    def encode(
        self, x: Texts, y: Any = None, sample_weight: Any = None
    ) -> tuple[LabelledTexts, bool]:
        """Tokenize texts or pairs; see `AlbertPreprocessor.encode`.

        The targets are similarities, one per pair.
        """
        columns, batched = self.columns(x)
        if y is not None and len(columns) == 1:
            msg = (
                "A similarity is that of two texts, and `x` has one a row. Pass pairs "
                "as one argument, `x=(first, second)`."
            )
            raise ValueError(msg)
        texts = SeparateTexts(
            tuple(
                EncodedTexts(
                    (self.tokenizer.tokenize_rows(column, checked=True),),
                    self.special_ids,
                    self.max_length,
                )
                for column in columns
            )
        )
        return LabelledTexts(texts, y, sample_weight), batched
