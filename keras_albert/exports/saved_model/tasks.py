"""TensorFlow graphs of tasks that read a row for each text."""

from typing import Any

import tensorflow as tf

from keras_albert.exports.saved_model.graph import (
    TaskGraph,
    counts_of,
    run_documents,
    text_signature,
)
from keras_albert.exports.shared import SPACES, TOP_K, token_names
from keras_albert.exports.write_litert import name_outputs
from keras_albert.preprocessors.in_graph import join_in_graph


class ClassifierGraph(TaskGraph):
    """Serves an `AlbertClassifier`: `text`, or `text` and `text_pair`, to classes."""

    def signatures(self) -> dict[str, Any]:
        return super().signatures() | {
            "serve_document": text_signature(
                lambda text: self._classify(run_documents(self, text))
            )
        }

    def answer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return self._classify(self.run(inputs))

    def _classify(self, outputs: Any) -> dict[str, Any]:
        classifier = self.task
        answers = name_outputs(classifier, {}, outputs)
        if classifier.is_regression:
            return answers
        probabilities = answers["probabilities"]
        names = tf.constant(classifier.class_names)
        rows = tf.shape(outputs)[:1]
        answers["label"] = tf.gather(names, answers.pop("index"))
        answers["classes"] = tf.tile(names[None], tf.concat([rows, [1]], axis=0))
        if classifier.set_threshold is not None:
            least = tf.minimum(answers["score"], classifier.set_threshold)
            answers["in_set"] = probabilities >= least[:, None]
        if self.top_k is not None:
            best = tf.math.top_k(probabilities, self.top_k)
            answers["top_k_labels"] = tf.gather(names, best.indices)
            answers["top_k_scores"] = best.values
        return answers


class TextEmbedderGraph(TaskGraph):
    """Serves an `AlbertTextEmbedder`: `text` to `embedding`, `(batch, width)`."""

    def signatures(self) -> dict[str, Any]:

        def serve_pair(text: Any, text_pair: Any) -> dict[str, Any]:
            # Each text is embedded independently, in a separate row.
            both = self.run(self.pack(tf.concat([text, text_pair], axis=0)))
            vectors = tf.nn.l2_normalize(both, axis=-1, epsilon=1e-14)
            sizes = tf.stack([tf.size(text), tf.size(text_pair)])
            first, second = tf.split(vectors, sizes)
            return {"similarity": tf.reduce_sum(first * second, axis=-1)}

        def serve_document(text: Any) -> dict[str, Any]:
            vectors = run_documents(self, text)
            if self.task.normalize:
                vectors = self.task.unit_length(vectors)
            return {"embedding": vectors}

        return super().signatures() | {
            "serve_pair": text_signature(serve_pair),
            "serve_document": text_signature(serve_document),
        }

    def answer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return {"embedding": self.run(inputs)}


class MultipleChoiceGraph(TaskGraph):
    """Serves an `AlbertMultipleChoice`: `context`, `question`, `choices` to scores."""

    def signatures(self) -> dict[str, Any]:

        return {
            "serving_default": text_signature(
                lambda context, question, choices: self._answer(
                    context, fill_in(question, choices), choices
                ),
                choices=2,
            ),
            "serve_question": text_signature(
                lambda question, choices: self._answer(question, choices, choices),
                choices=2,
            ),
            "serve_tokens": self.tokens_signature(self.answer, rank=3),
        }

    def _pack(self, texts: Any, tails: Any, choices: Any) -> dict[str, Any]:
        """Pack a row for each choice, as `ChoiceRows` does."""
        max_length = self.preprocessor.max_length
        count = tf.shape(choices)[1]
        second = self.tokenizer.tokenize(tf.reshape(tails, [-1]))
        lengths = second.row_lengths()
        longest = min(self.preprocessor.max_qa_length, max_length - 4)
        kept = tf.minimum(lengths, longest)
        starts = second.row_starts() + lengths - kept
        second = tf.gather(second.values, tf.ragged.range(starts, starts + kept))
        # The index of each row's text; a text is tokenized once.
        rows = tf.repeat(tf.range(tf.shape(choices)[0]), count)
        first = self.tokenizer.tokenize(texts)
        lengths = tf.gather(first.row_lengths(), rows)
        room = tf.minimum(lengths, max_length - 3 - kept)
        starts = tf.gather(first.row_starts(), rows)
        first = tf.gather(first.values, tf.ragged.range(starts, starts + room))
        packed = join_in_graph((first, second), self.special)
        packed["padding_mask"] *= tf.cast(tf.reshape(choices, [-1, 1]) != "", tf.int32)
        # With no choices, -1 in the shape would be ambiguous.
        width = tf.shape(packed["token_ids"])[1:]
        shape = tf.concat([tf.shape(choices), width], axis=0)
        return {name: tf.reshape(ids, shape) for name, ids in packed.items()}

    def answer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        found = name_outputs(self.task, inputs, self.run(inputs))
        return {"scores": found["scores"], "index": found["index"]}

    def _answer(self, texts: Any, tails: Any, choices: Any) -> dict[str, Any]:
        outputs = self.answer(self._pack(texts, tails, choices))
        choices = tf.pad(choices, [[0, 0], [1, 0]], constant_values="")
        best = tf.gather(choices, outputs["index"] + 1, batch_dims=1)
        return outputs | {"choice": best}


def fill_in(questions: Any, choices: Any) -> Any:
    """Put each choice for the `_` of its question, or behind it: `(batch, choices)`."""
    # An extra blank, removed below, because an empty string splits into no parts.
    parts = tf.strings.split(tf.strings.join([questions, "_"]), "_")
    blanks = parts.row_lengths() - 2
    ends = blanks[:, None]
    count = tf.shape(choices)[1]
    parts = tf.tile(parts.to_tensor("")[:, None], [1, count, 1])
    place = tf.range(tf.shape(parts)[-1], dtype=tf.int64)
    # Joining needs equal shapes.
    between = tf.where((place < ends)[:, None], choices[..., None], "")
    filled = tf.strings.reduce_join(tf.strings.join([parts, between]), axis=-1)
    questions = tf.tile(questions[:, None], [1, count])
    behind = tf.strings.join([questions, choices], separator=" ")
    return tf.where(ends > 0, filled, behind)


class MaskedLMGraph(TaskGraph):
    """Serves an `AlbertMaskedLM`: `text` with `[MASK]` to the most likely tokens."""

    # `count` excludes masks in the truncated part of a long text; `top_k` is 5 by
    # default.

    def pack(self, *texts: Any) -> dict[str, Any]:
        """Pack each text or pair into a row, with `[MASK]` as the mask token."""
        names = self.tokenizer, self.preprocessor.tokenizer
        return self.pack_tokens(tokenize_masks_in_graph(*names, text) for text in texts)

    def answer(self, inputs: dict[str, Any]) -> dict[str, Any]:
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
        scoring = self.row_signatures(self.answer)
        filling = self.row_signatures(super().answer)
        return {
            "serving_default": scoring["serve_pair"],
            "serve_tokens": scoring["serve_tokens"],
            "fill_mask": filling["serving_default"],
            "fill_mask_pair": filling["serve_pair"],
            "fill_mask_tokens": filling["serve_tokens"],
        }

    def answer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        # The model needs at least one mask position; its output is not used.
        nowhere = tf.zeros(tf.stack([tf.shape(inputs["token_ids"])[0], 1]), tf.int32)
        logits = self.run(inputs | {"mask_positions": nowhere})["sentence_order"]
        return {"score": tf.nn.softmax(logits)[:, 0]}
