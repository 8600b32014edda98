"""Texts or pairs of texts, as the classifier reads them."""

from typing import Any

import keras
import keras_hub
import numpy as np

from keras_albert.backbone.albert_backbone import AlbertBackbone
from keras_albert.presets.checkpoint_formats import CheckpointFormat
from keras_albert.presets.preset_mixin import PresetMixin
from keras_albert.text.albert_tokenizer import AlbertTokenizer
from keras_albert.text.graph_packing import pack_in_graph
from keras_albert.text.length_buckets import bucket_length, default_length_buckets
from keras_albert.text.packing import EncodedTexts, SpecialIds
from keras_albert.text.text_columns import (
    MAX_COLUMNS,
    holds_text,
    is_graph_text,
    text_columns,
)
from keras_albert.types import Lengths, Tensor, Texts, Truncation


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertClassifierPreprocessor(
    PresetMixin, keras_hub.models.TextClassifierPreprocessor
):
    """Tokenize texts and pack them as `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.

    In Python it needs no TensorFlow; mapped over a `tf.data.Dataset` it runs inside
    the graph and gives the same ids. A tuple of two texts is always a pair, never
    `(x, y)`.

    Args:
        tokenizer: An `AlbertTokenizer`.
        sequence_length: int or `None`. Pads every batch to this one length, as
            TPUs like it. Defaults to `None`: to the smallest of `length_buckets`
            that holds the batch's longest row.
        max_sequence_length: int. Rows are truncated to this many tokens where
            `sequence_length` is `None`. Defaults to `512`.
        length_buckets: Sequence of int or `None`. The lengths that batches are
            padded to. Defaults to `None`: powers of two and the points halfway.
        truncate: string. How a pair that is too long is cut: `"round_robin"`, one
            token at a time from the longer text, or `"waterfall"`, the second text
            first. Defaults to `"round_robin"`. `[CLS]` and `[SEP]` always stay.
        **kwargs: `name`, as on any Keras layer.

    Raises:
        ValueError: If a length leaves no room for a token of each text, a bucket is
            no length, or `truncate` is none of the two.

    Example:
        >>> import numpy as np
        >>> from keras_albert import AlbertClassifierPreprocessor, AlbertTokenizer
        >>> from keras_albert.text import train_vocabulary
        >>> words = ["the quick brown fox", "jumped over the lazy dog"] * 20
        >>> tokenizer = AlbertTokenizer(train_vocabulary(words, vocabulary_size=40))
        >>> preprocessor = AlbertClassifierPreprocessor(tokenizer)
        >>> sorted(preprocessor("the fox"))
        ['padding_mask', 'segment_ids', 'token_ids']
        >>> preprocessor(["the fox", "the lazy dog"])["token_ids"].shape
        (2, 16)
        >>> preprocessor(("the fox", "jumped"))["segment_ids"].max()  # a pair
        np.int32(1)
    """

    backbone_cls = AlbertBackbone
    tokenizer_cls = AlbertTokenizer

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        truncate: Truncation = "round_robin",
        **kwargs: Any,
    ) -> None:
        if truncate not in ("round_robin", "waterfall"):
            msg = (
                "`truncate` is 'round_robin' or 'waterfall'. Received: "
                f"truncate={truncate!r}"
            )
            raise ValueError(msg)
        # Room for [CLS] a [SEP] b [SEP].
        shortest = 2 * MAX_COLUMNS + 1
        for name, length in (
            ("sequence_length", sequence_length),
            ("max_sequence_length", max_sequence_length),
        ):
            if length is not None and length < shortest:
                msg = (
                    f"`{name}` must be at least {shortest}, so that a pair keeps a "
                    f"token of each text. Received: {name}={length}"
                )
                raise ValueError(msg)
        if length_buckets is not None:
            length_buckets = _read_buckets(length_buckets)
        super().__init__(
            tokenizer, sequence_length=sequence_length, truncate=truncate, **kwargs
        )
        self.max_sequence_length = max_sequence_length
        self.length_buckets = length_buckets

    def build(self, input_shape: Any) -> None:
        """Do nothing: there is no weight, and KerasHub's packer is not used."""
        self.built = True

    @property
    def max_length(self) -> int:
        """The most tokens in a row."""
        return int(self.sequence_length or self.max_sequence_length)

    def padded_length(self, longest: int) -> int:
        """Choose the width of a batch.

        Args:
            longest: int. The batch's longest row, at most `max_length`.

        Returns:
            `sequence_length`, or the bucket that holds `longest`.
        """
        if self.sequence_length is not None:
            return int(self.sequence_length)
        return bucket_length(longest, self._buckets())

    def _buckets(self) -> Lengths:
        if self.length_buckets is None:
            return default_length_buckets(self.max_sequence_length)
        buckets = (n for n in self.length_buckets if n < self.max_sequence_length)
        return (*buckets, self.max_sequence_length)

    def _special_ids(self) -> SpecialIds:
        tokenizer = self.tokenizer
        return SpecialIds(
            cls=tokenizer.cls_token_id,
            sep=tokenizer.sep_token_id,
            pad=tokenizer.pad_token_id,
        )

    def encode(self, texts: Texts) -> tuple[EncodedTexts, bool]:
        """Tokenize texts, to be packed batch by batch later.

        Args:
            texts: Texts or pairs, in any form that `text_columns` reads.

        Returns:
            The encoded texts, and whether `texts` was a batch.

        Raises:
            TypeError: If `texts` holds something else.
            ValueError: If a row is no text; the message names it.
        """
        columns, batched = text_columns(texts)
        rows = tuple(self.tokenizer.tokenize_rows(column) for column in columns)
        encoded = EncodedTexts(
            rows, self._special_ids(), self.max_length, self.truncate
        )
        return encoded, batched

    def __call__(
        self, x: Any, y: Any = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """Preprocess `x`, and hand on `y` and `sample_weight` as they are."""
        if isinstance(x, tuple) and y is None and sample_weight is None:
            x, y, sample_weight = _split_element(x)
        # With `y` by name, KerasHub does not take a pair for `(x, y)`.
        return super().__call__(x, y=y, sample_weight=sample_weight, **kwargs)

    def call(self, x: Texts, y: Any = None, sample_weight: Any = None) -> Any:
        """Preprocess texts.

        Args:
            x: One text, many, or pairs of either.
            y: Labels. Defaults to `None`.
            sample_weight: Weights. Defaults to `None`.

        Returns:
            A dict of `token_ids`, `segment_ids` and `padding_mask`, int32
            `(batch, length)`, or `(length,)` for one example; with labels and
            weights `(x, y, sample_weight)`.
        """
        if y is not None and holds_text(y):
            msg = (
                "The labels are texts. If they are the second texts of pairs, pass "
                "one tuple: `preprocessor((first, second))`, in a `tf.data.Dataset` "
                "`map(lambda first, second: preprocessor((first, second)))`. If they "
                "are names of classes, pass their numbers, or pass lists to the "
                "classifier, which knows the names."
            )
            raise ValueError(msg)
        if is_graph_text(x):
            packed = self.call_in_graph(x, self.sequence_length or self._buckets())
        else:
            encoded, batched = self.encode(x)
            longest = int(encoded.lengths.max(initial=1))
            packed = encoded.pack(np.arange(len(encoded)), self.padded_length(longest))
            if not batched:
                packed = {name: rows[0] for name, rows in packed.items()}
        return keras.utils.pack_x_y_sample_weight(packed, y, sample_weight)

    def call_in_graph(
        self, texts: Tensor | tuple[Tensor, ...], pad_to: int | Lengths | None = None
    ) -> dict[str, Tensor]:
        """Preprocess TensorFlow string tensors inside a graph.

        Args:
            texts: String tensor `(batch,)` or `()`, or a tuple of two.
            pad_to: See `pack_in_graph`. Defaults to `None`, the longest row.

        Returns:
            The dict that `call` gives, of TensorFlow tensors.
        """
        import tensorflow as tf  # noqa: PLC0415  (only those who trace a graph)

        columns = texts if isinstance(texts, tuple) else (texts,)
        single = columns[0].shape.rank == 0
        if single:
            columns = tuple(tf.expand_dims(column, 0) for column in columns)
        packed = pack_in_graph(
            tuple(self.tokenizer(column) for column in columns),
            self._special_ids(),
            self.max_length,
            self.truncate,
            pad_to,
        )
        if single:
            packed = {name: rows[0] for name, rows in packed.items()}
        return packed

    @classmethod
    def _from_checkpoint(
        cls, checkpoint_format: CheckpointFormat, directory: Any, **kwargs: Any
    ) -> Any:
        vocabulary = checkpoint_format.read_vocabulary(directory)
        return cls(tokenizer=AlbertTokenizer(vocabulary), **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Give the constructor's arguments."""
        config: dict[str, Any] = super().get_config()
        config.update(
            max_sequence_length=self.max_sequence_length,
            length_buckets=self.length_buckets and list(self.length_buckets),
        )
        return config


def _read_buckets(buckets: Lengths) -> tuple[int, ...]:
    """Check lengths early; a batch would stumble over them late."""
    lengths = np.asarray(buckets)
    if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
        lengths = np.zeros(1, int)
    if (lengths < 1).any():
        msg = (
            "`length_buckets` are the lengths that batches are padded to, whole "
            f"numbers from 1 on. Received: length_buckets={buckets!r}. For one length "
            "alone pass `sequence_length`."
        )
        raise ValueError(msg)
    return tuple(sorted(lengths.tolist()))


def _split_element(element: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    """Split one element of a data set, unless it is a pair of texts."""
    if len(element) == MAX_COLUMNS and holds_text(element[1]):
        return element, None, None
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(element)
    return x, y, sample_weight
