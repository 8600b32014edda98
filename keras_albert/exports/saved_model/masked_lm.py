"""The TensorFlow graphs of served masked language and pretraining models."""

from typing import Any

import tensorflow as tf

from keras_albert.exports.saved_model.graph import TaskGraph, counts_of, text_signature
from keras_albert.exports.shared import SPACES, TOP_K, token_names
from keras_albert.preprocessors.in_graph import pack_in_graph


class MaskedLMGraph(TaskGraph):
    """Serves an `AlbertMaskedLM`: `text` with `[MASK]` to the most likely tokens."""

    # `count` excludes masks in the truncated part of a long text; `top_k` is 5 by
    # default.

    def signatures(self) -> dict[str, Any]:
        return {
            "serving_default": text_signature(
                lambda text: self._fill(self.pack_masks(text))
            ),
            "serve_pair": text_signature(
                lambda text, text_pair: self._fill(self.pack_masks(text, text_pair))
            ),
            "serve_tokens": self.tokens_signature(self._fill),
        }

    def pack_masks(self, *texts: Any) -> dict[str, Any]:
        """Pack each text or pair into a row, with `[MASK]` as the mask token."""
        names = self.tokenizer, self.preprocessor.tokenizer
        return pack_in_graph(
            tuple(tokenize_masks_in_graph(*names, text) for text in texts),
            self.special,
            self.preprocessor.max_length,
            self.preprocessor.truncate,
        )

    def _fill(self, inputs: dict[str, Any]) -> dict[str, Any]:
        ids = inputs["token_ids"]
        is_mask = ids == self.preprocessor.tokenizer.mask_token_id
        is_mask &= inputs["padding_mask"] != 0
        at = tf.cast(tf.where(is_mask), tf.int32)
        positions = tf.RaggedTensor.from_value_rowids(
            at[:, 1], at[:, 0], tf.shape(ids)[0], validate=False
        )
        # The model needs at least one position; the extra one is removed below.
        positions = tf.pad(positions.to_tensor(0), [[0, 0], [0, 1]])
        outputs = self.run(inputs | {"mask_positions": positions})
        logits = self.task.token_scores(outputs)[:, :-1]
        count = min(self.top_k or TOP_K, self.task.backbone.vocabulary_size)
        scores, tokens = tf.math.top_k(tf.nn.softmax(logits), count)
        counts = counts_of(at[:, 0], tf.shape(ids)[0])
        is_one = tf.sequence_mask(counts, tf.shape(tokens)[1])[..., None]
        names = token_names(self.preprocessor.tokenizer)
        return {
            "token": tf.where(is_one, tokens, 0),
            "token_str": tf.where(is_one, tf.gather(tf.constant(names), tokens), ""),
            "score": tf.where(is_one, scores, 0.0),
            "count": counts,
        }


def tokenize_masks_in_graph(graph_tokenizer: Any, tokenizer: Any, texts: Any) -> Any:
    """Implement `tokenize_masks`; returns a ragged int32 tensor `(texts, tokens)`."""
    mask = tokenizer.mask_token
    # An extra mask, removed below, because an empty string splits into no parts.
    parts = tf.strings.split(tf.strings.join([texts, mask]), mask)[:, :-1]
    counts, rows = parts.row_lengths(), parts.value_rowids()
    is_behind = tf.range(tf.size(rows, tf.int64)) != tf.gather(parts.row_starts(), rows)
    parts = parts.values
    ids = graph_tokenizer.tokenize(parts)
    # A part that starts without a space continues the word of the mask.
    goes_on = is_behind & ~tf.strings.regex_full_match(parts, f"(?s)[{SPACES}].*")
    is_first = tf.range(tf.size(ids.values, tf.int64)) == tf.gather(
        ids.row_starts(), ids.value_rowids()
    )
    inner = tf.gather(tf.constant(tokenizer.vocabulary.inner_ids), ids.values)
    is_inner = is_first & tf.gather(goes_on, ids.value_rowids())
    ids = ids.with_values(tf.where(is_inner, inner, ids.values))
    ids = tf.ragged.boolean_mask(ids, ids >= 0)
    masks = tf.RaggedTensor.from_row_lengths(
        tf.fill([tf.math.count_nonzero(is_behind)], tokenizer.mask_token_id),
        tf.cast(is_behind, tf.int64),
    )
    ids = tf.concat([masks, ids], axis=1)
    # From parts to texts.
    return tf.RaggedTensor.from_row_lengths(ids, counts).merge_dims(1, 2)


class PretrainerGraph(MaskedLMGraph):
    """Serves an `AlbertPretrainer`: `text` and `text_pair` to `score`, `(batch,)`."""

    def signatures(self) -> dict[str, Any]:
        filling = super().signatures()
        return {
            "serving_default": text_signature(
                lambda text, text_pair: self._score(self.pack_masks(text, text_pair))
            ),
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
