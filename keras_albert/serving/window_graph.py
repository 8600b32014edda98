"""Overlapping windows inside a TensorFlow graph."""

from typing import Any

import tensorflow as tf

# Windows that are read at once: a long document must not fill the memory.
_WINDOWS_AT_ONCE = 64


class WindowGraph:
    """Do what `OverlappingWindows` does, with TensorFlow's operations.

    Attributes:
        documents: Which document each window is of, `(windows,)`.
        begins: Its first token among those of all documents, which lie end to end.
        ends: The token behind its last.
        owned_from: The first token that it answers for.
        owned_to: The token behind the last of these.

    Args:
        lengths: int64 tensor `(documents,)`. Tokens of each document.
        size: int, or int64 tensor `(documents,)`. Tokens in a window.
        stride: int, or int64 tensor `(documents,)`. Tokens from one window to the next.
    """

    def __init__(self, lengths: Any, size: Any, stride: Any) -> None:
        size, stride = (
            tf.broadcast_to(tf.cast(value, tf.int64), tf.shape(lengths))
            for value in (size, stride)
        )
        counts = 1 + tf.maximum(-tf.math.floordiv(size - lengths, stride), 0)
        count = tf.shape(lengths, tf.int64)[0]
        self.documents = tf.repeat(tf.range(count), counts)
        whole, size, stride = (
            tf.gather(values, self.documents) for values in (lengths, size, stride)
        )
        number = tf.range(tf.reduce_sum(counts))
        number -= tf.repeat(tf.cumsum(counts, exclusive=True), counts)
        inside = tf.minimum(number * stride, tf.maximum(whole - size, 0))
        base = tf.gather(tf.cumsum(lengths, exclusive=True), self.documents)
        self.begins = base + inside
        self.ends = self.begins + tf.minimum(whole, size)
        # Middles are taken twice, and borders four times, to stay whole.
        middles = self.begins + self.ends
        borders = ((middles[1:] + middles[:-1]) // 2 + 1) // 2
        same = self.documents[1:] == self.documents[:-1]
        self.owned_from = tf.concat(
            [self.begins[:1], tf.where(same, borders, self.begins[1:])], axis=0
        )
        self.owned_to = tf.concat(
            [tf.where(same, borders, self.ends[:-1]), self.ends[-1:]], axis=0
        )

    def take(self, values: Any) -> Any:
        """Give each window its part of the values of all tokens, a ragged tensor."""
        return tf.gather(values, tf.ragged.range(self.begins, self.ends))

    def places(self, offsets: Any, length: Any) -> tuple[Any, Any]:
        """Tell which token stands at each position of the windows' rows.

        Args:
            offsets: int64 tensor `(windows,)`. Where in its row a window begins.
            length: Integer. That of the rows.

        Returns:
            The token, 0 where there is none, int64 `(windows, length)`; and whether
            the window answers for it.
        """
        place = (self.begins - offsets)[:, None] + tf.range(tf.cast(length, tf.int64))
        is_owned = (place >= self.owned_from[:, None]) & (
            place < self.owned_to[:, None]
        )
        return tf.where(is_owned, place, 0), is_owned


def run_windows(task: Any, inputs: dict[str, Any]) -> Any:
    """Run a model on many rows, some at a time.

    Args:
        task: The model.
        inputs: Tensors `(rows, length)`.

    Returns:
        The outputs for all rows, a tensor or a dict.
    """
    rows = tf.shape(inputs["token_ids"])[0]
    turns = tf.maximum(1, -tf.math.floordiv(-rows, _WINDOWS_AT_ONCE))
    at_once = -tf.math.floordiv(-rows, turns)

    def split(ids: Any) -> Any:
        # What is too many repeats the last row.
        ids = tf.gather(ids, tf.minimum(tf.range(turns * at_once), rows - 1))
        return tf.reshape(ids, tf.stack([turns, at_once, tf.shape(ids)[1]]))

    def join(values: Any) -> Any:
        shape = tf.concat([[turns * at_once], tf.shape(values)[2:]], axis=0)
        return tf.reshape(values, shape)[:rows]

    outputs = tf.map_fn(
        lambda part: task(part, training=False),
        {name: split(ids) for name, ids in inputs.items()},
        parallel_iterations=1,
        fn_output_signature=tf.nest.map_structure(
            lambda output: tf.TensorSpec(output.shape, output.dtype), task.output
        ),
    )
    return tf.nest.map_structure(join, outputs)
