"""The TensorFlow graph of a served question answerer."""

from typing import Any

import tensorflow as tf

from keras_albert.exports.saved_model.graph import (
    TaskGraph,
    WindowGraph,
    run_windows,
    text_signature,
)
from keras_albert.exports.shared import IMPOSSIBLE, MAX_ANSWER_LENGTH
from keras_albert.preprocessors.in_graph import graph_tokens_with_offsets, join_in_graph
from keras_albert.text.spans import INVISIBLE


class QuestionAnswererGraph(TaskGraph):
    """Serves an `AlbertQuestionAnswerer`: `question` and `context` to the answer."""

    # It returns what `answer` does, over the same windows. "No answer" is "" from 0 to
    # 0.

    def signatures(self) -> dict[str, Any]:
        return {
            "serving_default": text_signature(self._answer),
            "serve_tokens": self.tokens_signature(
                lambda inputs: self.run(self._with_starts(inputs))
            ),
        }

    def _with_starts(self, inputs: dict[str, Any]) -> dict[str, Any]:
        if self.task.head != "conditional":
            return inputs
        # -1 selects the model's most likely starts.
        rows = tf.shape(inputs["token_ids"])[0]
        unknown = tf.fill(tf.stack([rows, self.task.start_n_top]), -1)
        return inputs | {"start_positions": unknown}

    def _answer(self, question: Any, context: Any) -> dict[str, Any]:
        ids, first, last = graph_tokens_with_offsets(self.tokenizer, context)
        windows, packed, offsets = self._windows(question, ids)
        outputs = run_windows(self.task, self._with_starts(packed))
        token, is_owned = windows.places(offsets, tf.shape(packed["token_ids"])[1])
        starts, scores, null = self._search(outputs, is_owned)
        # A piece that is a blank, or half a character, has no text. An extra token
        # keeps the tensors non-empty if all contexts are blank.
        first, last = (
            tf.concat([place.values, [0]], axis=0) for place in (first, last)
        )
        token = tf.gather(token, starts, batch_dims=1)
        ends = token[..., None] + tf.range(tf.shape(scores, tf.int64)[-1])
        final = tf.size(last, tf.int64) - 1
        ends = tf.gather(last, tf.minimum(ends, final))
        has_text = ends > tf.gather(first, token)[..., None]
        scores = tf.where(has_text, scores, -float("inf"))

        # The best span of each window, then the best window of each question.
        width = tf.shape(scores, tf.int64)[-1]
        flat = tf.reshape(scores, tf.stack([tf.shape(scores)[0], -1]))
        flat = tf.pad(flat, [[0, 0], [0, 1]], constant_values=-float("inf"))
        place = tf.argmax(flat, axis=-1)
        found = tf.gather(flat, place, batch_dims=1)
        count = tf.size(question)
        best = tf.math.unsorted_segment_max(found, windows.documents, count)
        number = tf.range(tf.size(found))
        is_best = found == tf.gather(best, windows.documents)
        window = tf.math.unsorted_segment_min(
            tf.where(is_best, number, tf.size(found) - 1), windows.documents, count
        )
        place = tf.gather(place, window)
        # The last place is the padding, chosen if there are no spans at all.
        which = tf.minimum(place // width, tf.shape(token, tf.int64)[1] - 1)
        token = tf.gather(tf.gather(token, window), which, batch_dims=1)
        start = tf.gather(first, token)
        end = tf.gather(last, tf.minimum(token + place % width, final))
        null = tf.math.unsorted_segment_min(null, windows.documents, count)
        return self._choose(context, start, end, best, null)

    def _windows(self, questions: Any, contexts: Any) -> tuple[WindowGraph, Any, Any]:
        """Pack questions with windows of their contexts, as `SpanWindows` does."""
        preprocessor = self.preprocessor
        budget = preprocessor.max_length - 3
        longest = min(preprocessor.max_query_length, budget // 2)
        questions = self.tokenizer.tokenize(questions)[:, :longest]
        kept = questions.row_lengths()
        room = budget - kept
        stride = tf.minimum(tf.constant(preprocessor.doc_stride, tf.int64), room)
        windows = WindowGraph(contexts.row_lengths(), room, stride)
        segments = (
            tf.gather(questions, windows.documents),
            windows.take(contexts.values),
        )
        offsets = tf.gather(kept, windows.documents) + 2
        return windows, join_in_graph(segments, self.special), offsets

    def _search(self, outputs: dict[str, Any], is_owned: Any) -> tuple[Any, Any, Any]:
        """Score spans in windows, as `span_candidates` does."""
        # Returns starts `(windows, starts)`, log-probabilities `(windows, starts,
        # lengths)` and each window's score for "no answer".
        start_scores = tf.nn.log_softmax(outputs["start_logits"])
        end_scores = tf.nn.log_softmax(outputs["end_logits"])
        masked = tf.where(is_owned, start_scores, -float("inf"))
        ends = tf.range(MAX_ANSWER_LENGTH)
        if self.task.head == "conditional":
            order = tf.argsort(-outputs["start_logits"], stable=True)
            starts = order[:, : self.task.start_n_top]
            # A row may have fewer positions than starts; the last start repeats.
            end_scores = end_scores[:, : tf.shape(starts)[1]]
            bands = _pad_ends(end_scores)
            bands = tf.gather(bands, starts[..., None] + ends, batch_dims=2)
            count = min(self.task.end_n_top, MAX_ANSWER_LENGTH)
            least = tf.math.top_k(bands, count).values[..., -1:]
            bands = tf.where(bands >= least, bands, -float("inf"))
            null = outputs["answerability"][:, 0]
        else:
            position = tf.range(tf.shape(masked)[1])
            starts = tf.broadcast_to(position, tf.shape(masked))
            bands = tf.gather(_pad_ends(end_scores), position[:, None] + ends, axis=1)
            null = start_scores[:, 0] + end_scores[:, 0]
        scores = tf.gather(masked, starts, batch_dims=1)[..., None] + bands
        impossible = scores <= IMPOSSIBLE
        return starts, tf.where(impossible, -float("inf"), scores), null

    def _choose(
        self, contexts: Any, start: Any, end: Any, best: Any, null: Any
    ) -> dict[str, Any]:
        """Return "no answer" above the threshold, or if no span was found."""
        is_found = best > IMPOSSIBLE
        is_conditional = self.task.head == "conditional"
        chance = tf.sigmoid(null) if is_conditional else tf.exp(null)
        threshold = self.task.null_threshold
        if threshold is not None:
            odds = null if is_conditional else null - best
            is_found &= odds <= threshold
        is_blank = tf.strings.regex_full_match(contexts, INVISIBLE)
        is_found &= ~is_blank
        start = tf.where(is_found, start, 0)
        end = tf.where(is_found, end, 0)
        codes = tf.strings.unicode_decode(contexts, "UTF-8")
        bases = tf.cast(codes.row_starts(), tf.int32)
        spans = tf.ragged.range(bases + start, bases + end)
        answer = tf.strings.unicode_encode(tf.gather(codes.values, spans), "UTF-8")
        score = tf.where(is_found, tf.exp(best), tf.where(is_blank, 1.0, chance))
        return {"answer": answer, "score": score, "start": start, "end": end}


def _pad_ends(scores: Any) -> Any:
    """Pad the scores so that spans past the end of the row are impossible."""
    shape = tf.concat([tf.shape(scores)[:-1], [MAX_ANSWER_LENGTH - 1]], axis=0)
    return tf.concat([scores, tf.fill(shape, -float("inf"))], axis=-1)
