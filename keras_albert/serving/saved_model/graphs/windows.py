"""Overlapping windows in a TensorFlow graph."""

from typing import Any

import tensorflow as tf

from keras_albert.serving.graph_tables import WINDOWS_AT_ONCE
from keras_albert.serving.saved_model.graphs.base import TaskGraph
from keras_albert.text.packing import join_in_graph, window_stride


class WindowGraph:
    """`OverlappingWindows` in TensorFlow operations.

    Attributes:
        documents: The document of each window, `(windows,)`.
        begins: Each window's first token, in the concatenation of all documents.
        ends: The token after its last one.
        owned_from: The first token that it predicts; overlaps belong to one window.
        owned_to: The token after the last of these.
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
        # Middles are computed times two, and borders times four, to stay integers.
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
        """Return each window's part of the values of all tokens, a ragged tensor."""
        return tf.gather(values, tf.ragged.range(self.begins, self.ends))

    def places(self, offsets: Any, length: Any) -> tuple[Any, Any]:
        """Return the token at each position `(windows, length)`, 0 if not predicted."""
        place = (self.begins - offsets)[:, None] + tf.range(tf.cast(length, tf.int64))
        is_owned = (place >= self.owned_from[:, None]) & (
            place < self.owned_to[:, None]
        )
        return tf.where(is_owned, place, 0), is_owned


def run_windows(task: Any, inputs: dict[str, Any]) -> Any:
    """Run a model on many rows, in batches."""
    rows = tf.shape(inputs["token_ids"])[0]
    turns = tf.maximum(1, -tf.math.floordiv(-rows, WINDOWS_AT_ONCE))
    at_once = -tf.math.floordiv(-rows, turns)

    def split(ids: Any) -> Any:
        # The last row is repeated to fill the last batch.
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


def run_documents(graph: TaskGraph, text: Any) -> Any:
    """Average the outputs of documents' windows, as `TextWindows`: `(batch, width)`."""
    tokens = graph.tokenizer.tokenize(text)
    room = graph.preprocessor.max_length - 2
    windows = WindowGraph(tokens.row_lengths(), room, window_stride(None, room))
    packed = join_in_graph((windows.take(tokens.values),), graph.special)
    outputs = run_windows(graph.task, packed)
    # The only window of an empty text owns no token; it counts as one.
    owned = tf.maximum(windows.owned_to - windows.owned_from, 1)
    texts, count = windows.documents, tf.size(text)
    total = tf.math.unsorted_segment_sum(owned, texts, count)
    shares = tf.cast(owned / tf.gather(total, texts), outputs.dtype)
    return tf.math.unsorted_segment_sum(outputs * shares[:, None], texts, count)
