"""The TensorFlow graph of a served text embedder."""

from typing import Any

import tensorflow as tf

from keras_albert.exports.saved_model import graph


class TextEmbedderGraph(graph.TaskGraph):
    """Serves an `AlbertTextEmbedder`: `text` to `embedding`, `(batch, width)`."""

    def signatures(self) -> dict[str, Any]:

        def serve_pair(text: Any, text_pair: Any) -> dict[str, Any]:
            # Each text is embedded independently, in a separate row.
            both = self._embed(self.pack(tf.concat([text, text_pair], axis=0)))
            vectors = tf.nn.l2_normalize(both["embedding"], axis=-1, epsilon=1e-14)
            first, second = tf.split(
                vectors, tf.stack([tf.size(text), tf.size(text_pair)])
            )
            return {"similarity": tf.reduce_sum(first * second, axis=-1)}

        def serve_document(text: Any) -> dict[str, Any]:
            vectors = graph.run_documents(self, text)
            if self.task.normalize:
                vectors = self.task.unit_length(vectors)
            return {"embedding": vectors}

        return {
            "serving_default": graph.text_signature(
                lambda text: self._embed(self.pack(text))
            ),
            "serve_pair": graph.text_signature(serve_pair),
            "serve_document": graph.text_signature(serve_document),
            "serve_tokens": self.tokens_signature(self._embed),
        }

    def _embed(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return {"embedding": self.run(inputs)}
