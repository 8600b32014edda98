"""Preprocessor of the classifier."""

from typing import Any

import keras
import keras_hub

from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessors.preprocessor import AlbertPreprocessor
from keras_albert.text import reading
from keras_albert.text.packing import (
    EncodedTexts,
    LabelledTexts,
    check_truncation,
    pack_in_graph,
)
from keras_albert.types import Lengths, Tensor, Texts, Truncation


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertClassifierPreprocessor(
    AlbertPreprocessor, keras_hub.models.TextClassifierPreprocessor
):
    """Tokenize texts and pack them as `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

    It does not need TensorFlow; mapped over a `tf.data.Dataset`, it runs inside the
    graph and returns the same ids. A tuple of two texts is always a pair, never
    `(x, y)`.

    Args:
        {shared}
        truncate: string. How a pair that is too long is truncated: `"round_robin"`
            removes one token at a time from the longer text, `"waterfall"` truncates
            the second text first. `[CLS]` and `[SEP]` are always kept. Defaults to
            `"round_robin"`.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length leaves no room for a token of each text, a bucket is
            not a valid length, or `truncate` is unknown.

    Example:
        >>> from keras_albert import AlbertClassifierPreprocessor
        >>> preprocessor = AlbertClassifierPreprocessor.from_preset(
        ...     "albert_tiny_en_uncased", sequence_length=16)
        >>> sorted(preprocessor("the fox"))
        ['padding_mask', 'segment_ids', 'token_ids']
        >>> preprocessor(["the fox", "the lazy dog"])["token_ids"].shape
        (2, 16)
        >>> preprocessor(("the fox", "jumped"))["segment_ids"].max()  # a pair
        np.int32(1)
    """

    runs_in_graph = True

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        truncate: Truncation = "round_robin",
        pack_sequences: bool = False,
        **kwargs: Any,
    ) -> None:
        check_truncation(truncate)
        lengths = sequence_length, max_sequence_length, length_buckets
        super().__init__(
            tokenizer, *lengths, pack_sequences, truncate=truncate, **kwargs
        )

    def encode(
        self, x: Texts, y: Any = None, sample_weight: Any = None
    ) -> tuple[LabelledTexts, bool]:
        """Tokenize texts or pairs; see `AlbertPreprocessor.encode`."""
        columns, batched = self.columns(x)
        rows = self.tokenize_columns(columns)
        texts = EncodedTexts(rows, self.special_ids, self.max_length, self.truncate)
        return LabelledTexts(texts, y, sample_weight), batched

    def call(self, x: Texts, y: Any = None, sample_weight: Any = None) -> Any:
        """Preprocess texts.

        Args:
            x: One text, a batch of texts, or a pair of either.
            y: Labels, returned unchanged. Defaults to `None`.
            sample_weight: Weights, returned unchanged. Defaults to `None`.

        Returns:
            A dict of `token_ids`, `segment_ids` and `padding_mask`, int32
            `(batch, length)`, or `(length,)` for one example; with labels and
            weights, `(x, y, sample_weight)`.
        """
        if y is not None and reading.are_texts(y):
            raise ValueError(
                "The labels are texts. For pairs call `preprocessor((first, second))`; "
                "for names of classes pass their numbers, or texts and names to the "
                "classifier, which knows them."
            )
        if reading.is_graph_text(x):
            packed = self.call_in_graph(x, self.sequence_length or self._buckets())
        else:
            packed = super().call(x)
        return keras.utils.pack_x_y_sample_weight(packed, y, sample_weight)

    def call_in_graph(
        self, texts: Tensor | tuple[Tensor, ...], pad_to: int | Lengths | None = None
    ) -> dict[str, Tensor]:
        """Preprocess TensorFlow string tensors inside a graph, as `call` returns them.

        A text that is not UTF-8 raises an error that names its row. For `pad_to`, see
        `pack_in_graph`.
        """
        import tensorflow as tf  # noqa: PLC0415  (needed in graphs only)

        columns = texts if isinstance(texts, tuple) else (texts,)
        single = columns[0].shape.rank == 0
        if single:
            columns = tuple(tf.expand_dims(column, 0) for column in columns)
        names = reading.COLUMN_NAMES[len(columns)]
        columns = tuple(map(reading.check_graph_text, columns, names))
        packed = pack_in_graph(
            tuple(self.tokenizer.tokenize_rows(column) for column in columns),
            self.special_ids,
            self.max_length,
            self.truncate,
            pad_to,
        )
        if single:
            packed = {name: rows[0] for name, rows in packed.items()}
        return packed


# KerasHub's name for the same class.
AlbertTextClassifierPreprocessor = AlbertClassifierPreprocessor
