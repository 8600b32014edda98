"""Base class of served models that average their outputs over long documents."""

from typing import Any

import tensorflow as tf

from keras_albert.serving.saved_model.graphs.base import TaskGraph
from keras_albert.serving.saved_model.graphs.windows import WindowGraph, run_windows
from keras_albert.text.packing.pack_in_graph import join_in_graph
from keras_albert.text.packing.windows import window_stride


class DocumentGraph(TaskGraph):
    """A task whose outputs for a document are means over its windows."""

    def run_documents(self, text: Any) -> Any:
        """Split documents into windows and average the outputs, as `TextWindows` does.

        Args:
            text: String tensor `(batch,)`.

        Returns:
            float32 tensor `(batch, width)`.
        """
        tokens = self.tokenizer.tokenize(text)
        room = self.preprocessor.max_length - 2
        windows = WindowGraph(tokens.row_lengths(), room, window_stride(None, room))
        packed = join_in_graph((windows.take(tokens.values),), self.special)
        outputs = run_windows(self.task, packed)
        # The only window of an empty text owns no token; it counts as one.
        owned = tf.maximum(windows.owned_to - windows.owned_from, 1)
        texts, count = windows.documents, tf.size(text)
        total = tf.math.unsorted_segment_sum(owned, texts, count)
        shares = tf.cast(owned / tf.gather(total, texts), outputs.dtype)
        return tf.math.unsorted_segment_sum(outputs * shares[:, None], texts, count)
