"""The TensorFlow graph of a served classifier."""

from typing import Any

import tensorflow as tf

from keras_albert.exports.saved_model.graph import (
    TaskGraph,
    run_documents,
    text_signature,
)


class ClassifierGraph(TaskGraph):
    """Serves an `AlbertClassifier`: `text`, or `text` and `text_pair`, to classes."""

    def signatures(self) -> dict[str, Any]:
        return {
            "serving_default": text_signature(lambda text: self._run(self.pack(text))),
            "serve_pair": text_signature(
                lambda text, text_pair: self._run(self.pack(text, text_pair))
            ),
            "serve_document": text_signature(
                lambda text: self._classify(run_documents(self, text))
            ),
            "serve_tokens": self.tokens_signature(self._run),
        }

    def _run(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self._classify(self.run(inputs))

    def _classify(self, outputs: Any) -> dict[str, Any]:
        classifier = self.task
        if classifier.is_regression:
            return {"score": outputs[:, 0]}
        is_logits = classifier.outputs_are_logits is not False
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
        if classifier.set_threshold is not None:
            least = tf.minimum(answers["score"], classifier.set_threshold)
            answers["in_set"] = probabilities >= least[:, None]
        if self.top_k is not None:
            best = tf.math.top_k(probabilities, self.top_k)
            answers["top_k_labels"] = tf.gather(names, best.indices)
            answers["top_k_scores"] = best.values
        return answers
