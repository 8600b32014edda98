"""Packing inside a TensorFlow graph, for `tf.data` and serving."""

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
    """Truncate and pack texts like `EncodedTexts`, with TensorFlow operations.

    `pad_to` is a length; rising lengths, of which the smallest that fits is taken; or
    `None` for the length of the longest row.
    """
    import tensorflow_text as tf_text  # noqa: PLC0415  (needed in graphs only)

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
    """Join segments of any length to rows; see `pack_in_graph`."""
    import tensorflow as tf  # noqa: PLC0415  (needed in graphs only)
    import tensorflow_text as tf_text  # noqa: PLC0415

    token_ids, segment_ids = tf_text.combine_segments(
        list(segments),
        start_of_sequence_id=special.cls,
        end_of_segment_id=special.sep,
    )
    longest = tf.cast(token_ids.bounding_shape(axis=1), tf.int32)
    if pad_to is None:
        # An empty batch has no longest row, but a model needs at least one token.
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
