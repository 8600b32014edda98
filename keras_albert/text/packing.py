"""Tokenized examples, their windows, and the rows of a batch packed of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.text.reading import plain_column
from keras_albert.text.tokenizer import token_rows
from keras_albert.types import (
    Batch,
    FloatArray,
    Int64Array,
    IntArray,
    Tensor,
    Truncation,
)

_WEIGHTS_ARE = "`sample_weight` must have a number for each example."


class Examples(Protocol):
    """Tokenized input, from which rows are packed into batches."""

    lengths: Int64Array  # Tokens in each row, `(rows,)`.

    def __len__(self) -> int:
        """Return the number of rows."""

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack rows, padded to `length`, with targets and weights if there are."""


class LabelledTexts:
    """Texts, such as `EncodedTexts`, with optional targets and sample weights."""

    def __init__(self, texts: Any, y: Any = None, sample_weight: Any = None) -> None:
        y, sample_weight = (
            None if x is None else np.atleast_1d(x) for x in (y, sample_weight)
        )
        check_counts(len(texts), y, sample_weight)
        self.texts = texts
        self.lengths = texts.lengths
        self.text_lengths = lengths_by_text(texts)
        self.y = y
        self.sample_weight = sample_weight

    def __len__(self) -> int:
        return len(self.texts)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows; see `Examples`."""
        x, y, weights = self.texts.pack(rows, length), self.y, self.sample_weight
        if y is None:
            return (x,)
        return (x, y[rows]) if weights is None else (x, y[rows], weights[rows])


def lengths_by_text(examples: Any) -> Int64Array:
    """Return the tokens of each text, `(rows, texts)`, 0 for a missing text."""
    return getattr(examples, "text_lengths", examples.lengths[:, None])


def pack_all(
    examples: Examples, padded_length: Any, batched: bool
) -> tuple[Any, Any, Any]:
    """Pack all rows as a batch, or the only one as an example; `None` is missing."""
    longest = int(examples.lengths.max(initial=1))
    batch: Any = examples.pack(np.arange(len(examples)), padded_length(longest))
    if not batched:
        batch = keras.tree.map_structure(lambda array: array[0], batch)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    return x, y, sample_weight


def read_weights(sample_weight: Any, axes: int = 1) -> Any:
    """Read weights of examples, or a dict of them: finite and not negative."""
    if isinstance(sample_weight, Mapping):
        return {name: read_weights(part, axes) for name, part in sample_weight.items()}
    sample_weight = plain_column(sample_weight)
    try:
        weights = np.asarray(sample_weight, np.float32)
    except (TypeError, ValueError) as error:
        msg = f"{_WEIGHTS_ARE} Received: {sample_weight!r:.80} ({error})"
        raise ValueError(msg) from error
    if not weights.ndim:
        raise ValueError(f"{_WEIGHTS_ARE} Received: {sample_weight!r:.80}")
    if axes == 1 and weights.ndim == 2 and weights.shape[1] == 1:
        weights = weights[:, 0]
    if weights.ndim > axes:
        raise ValueError(f"{_WEIGHTS_ARE} Received an array of shape {weights.shape}.")
    # False for NaN.
    valid = (weights >= 0) & (weights < np.inf)
    is_valid = np.asarray(valid.all(axis=tuple(range(1, weights.ndim))))
    if not is_valid.all():
        row = int(np.argmin(is_valid))
        raise ValueError(
            f"Row {row} has the sample weight {weights[row]}. Pass finite numbers that "
            "are not negative."
        )
    return weights


def weights_by_target(targets: Any, weights: Any) -> Any:
    """Copy one array of weights to each of several targets, with as many axes."""
    # Keras on TensorFlow would fail, or multiply each loss by each weight.
    if (
        weights is None
        or isinstance(weights, Mapping)
        or not isinstance(targets, Mapping)
    ):
        return weights
    return {
        name: weights.reshape(weights.shape + (1,) * (target.ndim - weights.ndim))
        for name, target in targets.items()
    }


def check_counts(count: int, targets: Any, weights: Any) -> None:
    """Check that there are as many targets and weights as examples."""
    for name, values in (("targets", targets), ("sample weights", weights)):
        parts = values.values() if isinstance(values, Mapping) else (values,)
        for part in parts:
            if part is not None and len(part) != count:
                raise ValueError(
                    f"There are {count} examples, but {len(part)} {name}. Each example "
                    "needs one."
                )


@dataclass(frozen=True)
class SpecialIds:
    """The ids that packing adds: `[CLS]` first, `[SEP]` after each text."""

    cls: int
    sep: int
    pad: int


def check_truncation(truncate: str) -> None:
    """Raise if `truncate` is neither "round_robin" nor "waterfall"."""
    if truncate not in ("round_robin", "waterfall"):
        raise ValueError(
            "`truncate` must be 'round_robin' or 'waterfall'. Received: "
            f"truncate={truncate!r}"
        )


class EncodedTexts:
    """One or two columns of tokenized and truncated texts, packed batch by batch."""

    def __init__(
        self,
        columns: tuple[token_rows.TokenRows, ...],
        special: SpecialIds,
        max_length: int,
        truncate: Truncation = "round_robin",
    ) -> None:
        self.columns = columns
        self.special = special
        budget = max_length - self.num_specials
        lengths = tuple(column.lengths for column in columns)
        self._kept = token_rows.truncated_lengths(lengths, budget, truncate)
        self._starts = tuple(column.starts for column in columns)
        self.lengths: Int64Array = np.sum(self._kept, axis=0) + self.num_specials

    @property
    def num_specials(self) -> int:
        """The number of special tokens in a row."""
        return len(self.columns) + 1

    def __len__(self) -> int:
        return len(self.columns[0])

    def pack(self, indices: Int64Array, length: int) -> dict[str, IntArray]:
        """Pack rows into int32 arrays `(batch, length)`; see `Examples`."""
        position = np.arange(length)
        rows = np.arange(len(indices))
        special = self.special
        token_ids = np.full((len(indices), length), special.pad, np.int32)
        segment_ids = np.zeros((len(indices), length), np.int32)
        token_ids[:, 0] = special.cls
        begin = np.ones(len(indices), np.int64)
        for segment, column in enumerate(self.columns):
            kept = self._kept[segment][indices]
            end = begin + kept
            inside = (position >= begin[:, None]) & (position < end[:, None])
            # Row by row, from left to right: the order of the ids in `column`.
            source = token_rows.ragged_range(self._starts[segment][indices], kept)
            token_ids[inside] = column.values[source]
            token_ids[rows, end] = special.sep
            if segment:
                segment_ids[inside] = segment
                segment_ids[rows, end] = segment
            begin = end + 1
        mask = (position < begin[:, None]).astype(np.int32)
        ids = {"token_ids": token_ids, "segment_ids": segment_ids}
        return {**ids, "padding_mask": mask}


def pack_in_graph(
    segments: tuple[Tensor, ...],
    special: SpecialIds,
    max_length: int,
    truncate: Truncation,
    pad_to: int | Sequence[int] | None = None,
) -> dict[str, Tensor]:
    """Truncate and pack texts like `EncodedTexts`, with TensorFlow operations."""
    # `pad_to` is a length, rising lengths to choose from, or `None`, the longest row.
    import tensorflow_text as tf_text  # noqa: PLC0415  (needed in graphs only)

    is_fair = truncate == "round_robin"
    kind = tf_text.RoundRobinTrimmer if is_fair else tf_text.WaterfallTrimmer
    trimmed = kind(max_length - len(segments) - 1).trim(list(segments))
    return join_in_graph(tuple(trimmed), special, pad_to)


def join_in_graph(
    segments: tuple[Tensor, ...],
    special: SpecialIds,
    pad_to: int | Sequence[int] | None = None,
) -> dict[str, Tensor]:
    """Join segments of any length to rows; see `pack_in_graph`."""
    import tensorflow as tf  # noqa: PLC0415  (needed in graphs only)
    import tensorflow_text as tf_text  # noqa: PLC0415

    token_ids, segment_ids = tf_text.combine_segments(
        list(segments), start_of_sequence_id=special.cls, end_of_segment_id=special.sep
    )
    longest = tf.cast(token_ids.bounding_shape(axis=1), tf.int32)
    if isinstance(pad_to, int):
        shape: Any = [None, pad_to]
    elif pad_to is None:
        # An empty batch has no longest row, but a model needs at least one token.
        shape = tf.stack([-1, tf.maximum(longest, 1)])
    else:
        buckets = tf.constant(list(pad_to), tf.int32)
        place = tf.searchsorted(buckets, longest[None])[0]
        shape = tf.stack([-1, buckets[place]])
    padding_mask = tf.ones_like(token_ids, dtype=tf.int32)
    return {
        "token_ids": token_ids.to_tensor(special.pad, shape=shape),
        "segment_ids": segment_ids.to_tensor(0, shape=shape),
        "padding_mask": padding_mask.to_tensor(0, shape=shape),
    }


class OverlappingWindows:
    """The windows of concatenated documents, and the tokens that each of them owns."""

    # Windows begin `stride` tokens apart, and the last one ends with its document. A
    # token is owned by the window with the nearest middle, or the first of two. `size`
    # and `stride` are one number or one for each document. Arrays are int64, or with
    # another `xp` than NumPy the tensors of that module.

    def __init__(self, lengths: Any, size: Any, stride: Any, xp: Any = np) -> None:
        # A maximum with 0 would be a `Relu` in TensorFlow's graph.
        counts = xp.maximum(1 - (size - lengths) // stride, 1)
        # The document of each window.
        self.documents = xp.repeat(xp.cumsum(xp.ones_like(lengths)) - 1, counts)
        kept = xp.minimum(lengths, size)
        base, first, last, kept, room, stride = (
            xp.take(each, self.documents)
            for each in (
                *(xp.cumsum(lengths) - lengths, xp.cumsum(counts) - counts),
                *(counts - 1, kept, lengths - kept, stride + 0 * lengths),
            )
        )
        number = xp.cumsum(xp.ones_like(self.documents)) - 1 - first

        def begin(number: Any) -> Any:
            return base + xp.minimum(number * stride, room)

        def border(number: Any) -> Any:
            """Return the first token that is nearer than to the window before."""
            return (begin(number) + begin(number - 1) + kept + 1) // 2

        # The first tokens and those after the last, of the window and of what it owns.
        self.begins, self.ends = begin(number), begin(number) + kept
        self.owned_from = xp.where(number == 0, self.begins, border(number))
        self.owned_to = xp.where(number == last, self.ends, border(number + 1))

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def tokens(self) -> token_rows.TokenRows:
        """The tokens of each window, as positions in the concatenated documents."""
        sizes = self.ends - self.begins
        at = token_rows.ragged_range(self.begins, sizes).astype(np.int32)
        return token_rows.TokenRows(at, sizes)

    @property
    def owned(self) -> npt.NDArray[np.bool_]:
        """Whether the window owns the token, for each of `tokens.values`."""
        at, sizes = self.tokens
        low, high = (np.repeat(x, sizes) for x in (self.owned_from, self.owned_to))
        return np.asarray((at >= low) & (at < high))


def window_stride(stride: int | None, size: int) -> int:
    """Check the stride; `None` is half a window."""
    if stride is None:
        return max(1, size // 2)
    if not 1 <= stride <= size:
        raise ValueError(
            "`stride`, the distance in tokens from window to window, must be from 1 to "
            f"{size}, the length of a window. Received: stride={stride}"
        )
    return stride


class TextWindows:
    """Rows `[CLS] window [SEP]` of texts, `stride` tokens apart; see `Examples`."""

    def __init__(
        self,
        texts: token_rows.TokenRows,
        special: SpecialIds,
        max_length: int,
        stride: int | None = None,
    ) -> None:
        room = max_length - 2
        windows = OverlappingWindows(texts.lengths, room, window_stride(stride, room))
        tokens = windows.tokens
        ids = token_rows.TokenRows(texts.values[tokens.values], tokens.lengths)
        self._rows = EncodedTexts((ids,), special, max_length)
        self.lengths = self._rows.lengths
        self._texts = windows.documents
        # How many windows each text has.
        self.counts: Int64Array = np.bincount(self._texts, minlength=len(texts))
        # The only window of an empty text owns no token, but has a weight too.
        owned = np.maximum(1, windows.owned_to - windows.owned_from)
        self._shares = owned / np.bincount(self._texts, owned)[self._texts]

    def __len__(self) -> int:
        return len(self._rows)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows; see `Examples`."""
        return (self._rows.pack(rows, length),)

    def mean(self, outputs: npt.NDArray[np.floating]) -> FloatArray:
        """Return the means of each text's windows, weighted by the tokens they own."""
        sums = np.zeros((len(self.counts), outputs.shape[1]))
        np.add.at(sums, self._texts, outputs * self._shares[:, None])
        return sums.astype(np.float32)
