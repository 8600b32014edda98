"""The TensorFlow graph of a served multiple choice model."""

from typing import Any

import tensorflow as tf

from keras_albert.exports.saved_model.graph import TaskGraph, text_signature
from keras_albert.preprocessors.in_graph import join_in_graph


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
            "serve_tokens": self.tokens_signature(self._score, rank=3),
        }

    def _pack(self, texts: Any, tails: Any, choices: Any) -> dict[str, Any]:
        """Pack a row for each choice, as `ChoiceRows` does."""
        max_length = self.preprocessor.max_length
        count = tf.shape(choices)[1]
        second = self.tokenizer.tokenize(tf.reshape(tails, [-1]))
        lengths = second.row_lengths()
        longest = min(self.preprocessor.max_qa_length, max_length - 4)
        kept = tf.minimum(lengths, longest)
        second = _slice(second, lengths - kept, kept)
        # The index of each row's text; a text is tokenized once.
        rows = tf.repeat(tf.range(tf.shape(choices)[0]), count)
        first = self.tokenizer.tokenize(texts)
        lengths = tf.gather(first.row_lengths(), rows)
        room = tf.minimum(lengths, max_length - 3 - kept)
        starts = tf.gather(first.row_starts(), rows)
        first = tf.gather(first.values, tf.ragged.range(starts, starts + room))
        packed = join_in_graph((first, second), self.special)
        is_present = tf.cast(tf.reshape(choices, [-1, 1]) != "", tf.int32)
        packed["padding_mask"] *= is_present
        # With no choices, -1 in the shape would be ambiguous.
        width = tf.shape(packed["token_ids"])[1:]
        shape = tf.concat([tf.shape(choices), width], axis=0)
        return {name: tf.reshape(ids, shape) for name, ids in packed.items()}

    def _score(self, inputs: dict[str, Any]) -> dict[str, Any]:
        is_present = tf.reduce_any(inputs["padding_mask"] != 0, axis=-1)
        scores = tf.where(is_present, tf.nn.softmax(self.run(inputs)), 0.0)
        # An argmax over no choices is undefined.
        padded = tf.pad(scores, [[0, 0], [0, 1]], constant_values=-1.0)
        best = tf.argmax(padded, axis=-1, output_type=tf.int32)
        has_choice = tf.reduce_any(is_present, axis=-1)
        return {"scores": scores, "index": tf.where(has_choice, best, -1)}

    def _answer(self, texts: Any, tails: Any, choices: Any) -> dict[str, Any]:
        outputs = self._score(self._pack(texts, tails, choices))
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


def _slice(ragged: Any, offsets: Any, lengths: Any) -> Any:
    starts = ragged.row_starts() + offsets
    return tf.gather(ragged.values, tf.ragged.range(starts, starts + lengths))
