"""The TensorFlow graph of a served classifier."""

from typing import Any

import tensorflow as tf

from keras_albert.serving.saved_model.graphs.base import TaskGraph, text_signature
from keras_albert.serving.saved_model.graphs.early_exit import early_signatures
from keras_albert.serving.saved_model.graphs.windows import run_documents


class ClassifierGraph(TaskGraph):
    """Serves an `AlbertClassifier`: `text`, or `text` and `text_pair`, to classes.

    Outputs: `probabilities`, `logits` and `classes`, each `(batch, classes)`, and
    `label` and `score` of the most likely class; for a regression only `score`. With
    `top_k` also `top_k_labels` and `top_k_scores`, `(batch, top_k)`, most likely first.
    `serve_document` returns what `classify_documents` does with its defaults. A
    classifier with exits has also the `early_signatures`.
    """

    def signatures(self) -> dict[str, Any]:
        """Return the served functions by name."""

        def serve_text(text: Any) -> dict[str, Any]:
            return self._run(self.pack(text))

        def serve_pair(text: Any, text_pair: Any) -> dict[str, Any]:
            return self._run(self.pack(text, text_pair))

        def serve_document(text: Any) -> dict[str, Any]:
            return self._classify(run_documents(self, text))

        served = {
            "serving_default": text_signature(serve_text, text=1),
            "serve_pair": text_signature(serve_pair, text=1, text_pair=1),
            "serve_document": text_signature(serve_document, text=1),
            "serve_tokens": self.tokens_signature(self._run),
        }
        if self.task.exits:
            served |= early_signatures(self, self._classify)
        return served

    def _run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self._classify(self.run(inputs))

    def _classify(self, outputs: Any) -> dict[str, Any]:
        classifier = self.task
        if classifier.is_regression:
            return {"score": outputs[:, 0]}
        is_logits = classifier.returns_logits
        probabilities = tf.nn.softmax(outputs) if is_logits else outputs
        names = tf.constant(classifier.class_names)
        rows = tf.shape(outputs)[:1]
        answers = {
            "probabilities": probabilities,
            "label": tf.gather(names, tf.argmax(probabilities, axis=-1)),
            "score": tf.reduce_max(probabilities, axis=-1),
            "classes": tf.tile(names[None], tf.concat([rows, [1]], axis=0)),
        }
        if is_logits:
            answers["logits"] = outputs
        if self.top_k is not None:
            best = tf.math.top_k(probabilities, self.top_k)
            answers["top_k_labels"] = tf.gather(names, best.indices)
            answers["top_k_scores"] = best.values
        return answers
