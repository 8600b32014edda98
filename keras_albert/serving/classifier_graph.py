"""What a served classifier computes."""

from typing import Any

import tensorflow as tf
import tensorflow_text as tf_text

from keras_albert.text.graph_packing import pack_in_graph
from keras_albert.text.packing import SpecialIds


class ClassifierGraph(tf.Module):
    """An `AlbertClassifier` as TensorFlow functions from strings to answers.

    Every output has the batch as its first axis, which a server that joins requests
    to batches relies on.

    Args:
        classifier: An `AlbertClassifier` of the TensorFlow backend.
    """

    def __init__(self, classifier: Any) -> None:
        super().__init__()
        preprocessor = classifier.preprocessor
        tokenizer = preprocessor.tokenizer
        # Keras' own tracking would write each weight twice. This list is all that
        # the checkpoint sees; the model itself hides in a function.
        self.weights = [variable.value for variable in classifier.variables]
        self.tokenizer = tf_text.SentencepieceTokenizer(
            model=tokenizer.proto, out_type=tf.int32
        )
        special = SpecialIds(
            tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
        )
        max_length, truncate = preprocessor.max_length, preprocessor.truncate

        def classify(inputs: dict[str, Any]) -> dict[str, Any]:
            return _answers(classifier, classifier(inputs, training=False))

        def pack(*texts: Any) -> dict[str, Any]:
            # To the longest text of the batch: nothing here is compiled for a shape.
            segments = tuple(self.tokenizer.tokenize(text) for text in texts)
            return pack_in_graph(segments, special, max_length, truncate)

        texts = tf.TensorSpec((None,), tf.string, "text")
        pairs = tf.TensorSpec((None,), tf.string, "text_pair")
        ids = {
            name: tf.TensorSpec((None, None), tf.int32, name)
            for name in ("token_ids", "segment_ids", "padding_mask")
        }

        @tf.function(input_signature=[texts])
        def serve_text(text: Any) -> dict[str, Any]:
            return classify(pack(text))

        @tf.function(input_signature=[texts, pairs])
        def serve_pair(text: Any, text_pair: Any) -> dict[str, Any]:
            return classify(pack(text, text_pair))

        @tf.function(input_signature=list(ids.values()))
        def serve_tokens(
            token_ids: Any, segment_ids: Any, padding_mask: Any
        ) -> dict[str, Any]:
            fits = tf.debugging.assert_less_equal(
                tf.shape(token_ids)[1],
                classifier.backbone.max_sequence_length,
                "`token_ids` has more tokens than the model reads. Truncate its rows.",
            )
            # Or an operation deep in the model may fail first and say less.
            with tf.control_dependencies([fits]):
                token_ids = tf.identity(token_ids)
            # A server pads a ragged batch with each row's first element, so that a
            # padded mask says 1 where there is nothing.
            real = tf.cast(token_ids != special.pad, tf.int32) * padding_mask
            return classify(
                {
                    "token_ids": token_ids,
                    "segment_ids": segment_ids,
                    "padding_mask": real,
                }
            )

        self.signatures = {
            "serving_default": serve_text,
            "serve_pair": serve_pair,
            "serve_tokens": serve_tokens,
        }


def _answers(classifier: Any, outputs: Any) -> dict[str, Any]:
    if classifier.is_regression:
        return {"score": outputs[:, 0]}
    is_logits = classifier.activation.__name__ != "softmax"
    probabilities = tf.nn.softmax(outputs) if is_logits else outputs
    names = tf.constant(classifier.class_names)
    rows = tf.shape(outputs)[:1]
    return {
        "probabilities": probabilities,
        "label": tf.gather(names, tf.argmax(probabilities, axis=-1)),
        "score": tf.reduce_max(probabilities, axis=-1),
        "classes": tf.tile(names[None], tf.concat([rows, [1]], axis=0)),
    } | ({"logits": outputs} if is_logits else {})
