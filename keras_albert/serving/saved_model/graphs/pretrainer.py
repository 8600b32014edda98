"""The TensorFlow graph of a served pretraining model."""

from typing import Any

import tensorflow as tf

from keras_albert.serving.saved_model.graphs.base import text_signature
from keras_albert.serving.saved_model.graphs.masked_lm import MaskedLMGraph


class PretrainerGraph(MaskedLMGraph):
    """Serves an `AlbertPretrainer`: `text` and `text_pair` to `score`, `(batch,)`.

    The score is the probability that the second text follows the first, as
    `score_order` returns it. `fill_mask`, `fill_mask_pair` and `fill_mask_tokens` are
    the functions of `MaskedLMGraph`.
    """

    def signatures(self) -> dict[str, Any]:
        """Return the served functions by name."""

        def serve_pair(text: Any, text_pair: Any) -> dict[str, Any]:
            return self._score(self.pack_masks(text, text_pair))

        filling = super().signatures()
        return {
            "serving_default": text_signature(serve_pair, text=1, text_pair=1),
            "serve_tokens": self.tokens_signature(self._score),
            "fill_mask": filling["serving_default"],
            "fill_mask_pair": filling["serve_pair"],
            "fill_mask_tokens": filling["serve_tokens"],
        }

    def _score(self, inputs: dict[str, Any]) -> dict[str, Any]:
        # The model needs at least one mask position; its output is not used.
        nowhere = tf.zeros(tf.stack([tf.shape(inputs["token_ids"])[0], 1]), tf.int32)
        logits = self.run(inputs | {"mask_positions": nowhere})["sentence_order"]
        return {"score": tf.nn.softmax(logits)[:, 0]}
