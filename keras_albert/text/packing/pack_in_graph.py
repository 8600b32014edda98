"""Packing inside a TensorFlow graph: for `tf.data` and for serving."""

from collections.abc import Sequence
from typing import Any

from keras_albert.text.packing.pack import SpecialIds
from keras_albert.types import Tensor, Truncation


def pack_in_graph(
    segments: tuple[Tensor, ...],
    special: SpecialIds,
    max_length: int,
    truncate: Truncation,
    pad_to: int | Sequence[int] | None = None,
) -> dict[str, Tensor]:
    """Do what `EncodedTexts` does, with TensorFlow's operations.

    Args:
        segments: One or two `tf.RaggedTensor` `(batch, tokens)` of int32 ids.
        special: `SpecialIds`.
        max_length: int. The most tokens in a row, the specials counted.
        truncate: "round_robin" or "waterfall".
        pad_to: int for one fixed length; a rising sequence of lengths, of which the
            smallest that fits is taken; or `None`, the default, for the longest row.

    Returns:
        `token_ids`, `segment_ids` and `padding_mask`, int32 `(batch, length)`.
    """
    import tensorflow_text as tf_text  # noqa: PLC0415  (only who traces needs it)

    budget = max_length - len(segments) - 1
    if truncate == "round_robin":
        trimmer: Any = tf_text.RoundRobinTrimmer(budget)
    else:
        trimmer = tf_text.WaterfallTrimmer(budget)
    return join_in_graph(tuple(trimmer.trim(list(segments))), special, pad_to)


def join_in_graph(
    segments: tuple[Tensor, ...],
    special: SpecialIds,
    pad_to: int | Sequence[int] | None = None,
) -> dict[str, Tensor]:
    """Join segments to rows as they are, however long.

    Args:
        segments: See `pack_in_graph`.
        special: `SpecialIds`.
        pad_to: See `pack_in_graph`. Defaults to `None`.

    Returns:
        As `pack_in_graph`.
    """
    import tensorflow as tf  # noqa: PLC0415  (only those who trace a graph need it)
    import tensorflow_text as tf_text  # noqa: PLC0415

    token_ids, segment_ids = tf_text.combine_segments(
        list(segments),
        start_of_sequence_id=special.cls,
        end_of_segment_id=special.sep,
    )
    longest = tf.cast(token_ids.bounding_shape(axis=1), tf.int32)
    if pad_to is None:
        # An empty batch has no longest row, and a model wants at least one token.
        length = tf.maximum(longest, 1)
    elif isinstance(pad_to, int):
        length = pad_to
    else:
        buckets = tf.constant(list(pad_to), tf.int32)
        length = buckets[tf.searchsorted(buckets, longest[None])[0]]
    shape = [None, length] if isinstance(pad_to, int) else tf.stack([-1, length])
    padding_mask = tf.ones_like(token_ids, dtype=tf.int32)
    return {
        "token_ids": token_ids.to_tensor(special.pad, shape=shape),
        "segment_ids": segment_ids.to_tensor(0, shape=shape),
        "padding_mask": padding_mask.to_tensor(0, shape=shape),
    }
