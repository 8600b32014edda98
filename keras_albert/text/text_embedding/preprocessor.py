"""Preprocessor of the text embedder."""

from typing import Any

import keras
import keras_hub

from keras_albert.text.packing.examples import LabelledTexts
from keras_albert.text.packing.pack import EncodedTexts
from keras_albert.text.preprocessor import AlbertPreprocessor
from keras_albert.text.text_embedding.separate_texts import SeparateTexts
from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer
from keras_albert.types import Lengths, Texts


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

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        **kwargs: Any,
    ) -> None:
        # KerasHub's truncation of pairs, which are never in one row here.
        kwargs.pop("truncate", None)
        super().__init__(tokenizer, **kwargs)
        self._set_lengths(sequence_length, max_sequence_length, length_buckets)

    def encode(
        self, x: Texts, y: Any = None, sample_weight: Any = None
    ) -> tuple[LabelledTexts, bool]:
        """Tokenize texts, to be packed batch by batch later.

        Args:
            x: Texts or pairs, in any form that `text_columns` reads.
            y: Similarities, one per pair. Defaults to `None`.
            sample_weight: Weights, one per pair. Defaults to `None`.

        Returns:
            The encoded texts, and whether `x` was a batch.

        Raises:
            TypeError: If `x` does not contain texts.
            ValueError: If a row is not a text; the message names it.
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
                    (self.tokenizer.tokenize_rows(column),),
                    self.special_ids,
                    self.max_length,
                )
                for column in columns
            )
        )
        return LabelledTexts(texts, y, sample_weight), batched
