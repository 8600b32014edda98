"""TensorFlow graphs of the tasks that read a long text in windows."""

from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_text as tf_text

from keras_albert.exports.saved_model import graph
from keras_albert.exports.shared import (
    IMPOSSIBLE,
    MAX_ANSWER_LENGTH,
    SPACES,
    entity_tables,
    word_pattern,
)
from keras_albert.preprocessors.in_graph import (
    find_characters,
    graph_tokens_with_offsets,
    join_in_graph,
)
from keras_albert.text.spans import INVISIBLE
from keras_albert.text.tags import OUTSIDE, Span, spans_to_tags
from keras_albert.text.windows import window_stride


class WordTensors(NamedTuple):
    """The concatenated words of all texts."""

    # `characters` are all code points. A word of `texts` has those from `starts` to
    # `ends`, and a text starts at `bases`.

    characters: Any
    starts: Any
    ends: Any
    texts: Any
    bases: Any

    def cut(self, starts: Any, ends: Any) -> Any:
        """Return the strings between positions in `characters`, a string tensor."""
        codes = tf.gather(self.characters, tf.ragged.range(starts, ends))
        return tf.strings.unicode_encode(codes, "UTF-8")

    def in_text(self, places: Any, texts: Any) -> Any:
        """Convert positions in `characters` to int32 positions in their texts."""
        return tf.cast(places - tf.gather(self.bases, texts), tf.int32)


def find_words(texts: Any) -> WordTensors:
    """Split texts into words as `split_words` does."""
    # The operation ends at a NUL, which is a sign, as other control characters are.
    shown = tf.strings.regex_replace(texts, r"\x00", "\x01")
    pattern = word_pattern()
    parts, *places = tf_text.regex_split_with_offsets(shown, pattern, pattern)
    is_word = ~tf.strings.regex_full_match(parts.values, f"[{SPACES}]*")
    rows = tf.boolean_mask(parts.value_rowids(), is_word)
    bytes_of_words = (tf.boolean_mask(place.values, is_word) for place in places)
    codes, starts, ends = find_characters(texts, rows, *bytes_of_words)
    return WordTensors(codes.values, starts, ends, rows, codes.row_starts())


class _Entities(NamedTuple):
    """The entities of all texts: their first and last words, tags and scores."""

    first: Any
    last: Any
    label: Any
    score: Any


class TokenClassifierGraph(graph.TaskGraph):
    """Serves an `AlbertTokenClassifier`: `text` of any length to entities or words."""

    # It returns what `tag` and `predict_tags` do, from the same words and windows.

    def signatures(self) -> dict[str, Any]:

        def serve_text(text: Any) -> dict[str, Any]:
            words = find_words(text)
            found = self._find_entities(words, *self._probabilities(words))
            starts = tf.gather(words.starts, found.first)
            ends = tf.gather(words.ends, found.last)
            rows = tf.gather(words.texts, found.first)
            return _describe(words, found.label, found.score, starts, ends, rows)

        def serve_words(text: Any) -> dict[str, Any]:
            words = find_words(text)
            probabilities, is_seen = self._probabilities(words)
            tags = self._tags(words, probabilities, is_seen)
            scores = tf.reduce_max(probabilities, axis=-1)
            starts, ends, rows = words.starts, words.ends, words.texts
            return _describe(words, tags, scores, starts, ends, rows)

        return {
            "serving_default": graph.text_signature(serve_text),
            "serve_words": graph.text_signature(serve_words),
            "serve_tokens": self.tokens_signature(self.answer),
        }

    def answer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        probabilities = tf.nn.softmax(self.run(inputs))
        best = tf.argmax(probabilities, axis=-1)
        return {
            "probabilities": probabilities,
            "label": tf.gather(tf.constant(self.task.class_names), best),
            "score": tf.reduce_max(probabilities, axis=-1),
        }

    def _probabilities(self, words: WordTensors) -> tuple[Any, Any]:
        """Return the probabilities `(words, tags)`, and which words have tokens."""
        pieces = self.tokenizer.tokenize(words.cut(words.starts, words.ends))
        lengths = tf.math.unsorted_segment_sum(
            pieces.row_lengths(), words.texts, tf.size(words.bases)
        )
        room = self.preprocessor.max_length - 2
        stride = window_stride(self.preprocessor.stride, room)
        windows = graph.WindowGraph(lengths, room, stride)
        packed = join_in_graph((windows.take(pieces.values),), self.special)
        logits = graph.run_windows(self.task, packed)
        # Windows start after `[CLS]`.
        offsets = tf.ones_like(windows.starts)
        piece, answers = windows.places(offsets, tf.shape(logits)[1])
        at = tf.where(answers)
        piece = tf.gather_nd(piece, at)
        word = tf.gather(pieces.value_rowids(), piece)
        if not self.preprocessor.label_all_pieces:
            is_first = piece == tf.gather(pieces.row_starts(), word)
            at, word = at[is_first], word[is_first]
        merged = tf.math.unsorted_segment_mean(
            tf.gather_nd(logits, at), word, tf.size(words.starts)
        )
        return tf.nn.softmax(merged), pieces.row_lengths() > 0

    def _find_entities(
        self, words: WordTensors, probabilities: Any, is_seen: Any
    ) -> _Entities:
        """Find entities as `find_entities` does, for all texts at once."""
        names = self.task.class_names
        labels, joins = entity_tables(names)
        seen = tf.where(is_seen)[:, 0]
        probabilities = tf.gather(probabilities, seen)
        tags = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
        texts = tf.gather(words.texts, seen)
        is_inside = tf.gather(tf.constant([name != OUTSIDE for name in names]), tags)
        goes_on = tf.gather_nd(
            tf.constant(joins), tf.stack([tags[:-1], tags[1:]], axis=-1)
        )
        goes_on &= texts[1:] == texts[:-1]
        first = tf.fill([tf.minimum(tf.size(tags), 1)], False)
        starts = is_inside & ~tf.concat([first, goes_on], axis=0)
        number = (tf.cumsum(tf.cast(starts, tf.int32)) - 1)[is_inside]
        count = tf.reduce_sum(tf.cast(starts, tf.int32))
        scores = tf.reduce_max(probabilities, axis=-1)[is_inside]
        return _Entities(
            seen[starts],
            tf.math.unsorted_segment_max(seen[is_inside], number, count),
            tf.gather(tf.constant(labels), tags[starts]),
            tf.math.unsorted_segment_mean(scores, number, count),
        )

    def _tags(self, words: WordTensors, probabilities: Any, is_seen: Any) -> Any:
        """Return the tag of each word, as `predict_tags` does."""
        scheme = self.task.known_scheme
        if scheme == "IO":
            names = tf.constant(self.task.class_names)
            return tf.gather(names, tf.argmax(probabilities, axis=-1))
        found = self._find_entities(words, probabilities, is_seen)
        word = tf.range(tf.size(words.starts, tf.int64))
        number = tf.searchsorted(found.first, word, side="right") - 1
        # An extra entity at the front, for words before the first one.
        first = tf.gather(_behind(found.first, -1), number + 1)
        last = tf.gather(_behind(found.last, -1), number + 1)
        label = tf.gather(_behind(found.label, ""), number + 1)
        # Whether the previous entity ends directly before, with the same label.
        texts = (tf.gather(words.texts, x) for x in (found.first[1:], found.last[:-1]))
        adjoins = found.first[1:] == found.last[:-1] + 1
        adjoins &= (found.label[1:] == found.label[:-1]) & tf.equal(*texts)
        adjoins = tf.concat([tf.fill([2], False), adjoins], axis=0)
        marks = [
            [[mark_of(scheme, *place, last) for last in (0, 1)] for place in row]
            for row in (((0, 0), (0, 1)), ((1, 0), (1, 1)))
        ]
        place = tf.stack(
            [tf.gather(adjoins, number + 1), word == first, word == last], axis=-1
        )
        mark = tf.gather_nd(tf.constant(marks), tf.cast(place, tf.int32))
        tags = tf.strings.join([mark, label])
        return tf.where((number >= 0) & (word <= last), tags, OUTSIDE)


def mark_of(scheme: Any, adjoins: int, is_first: int, is_last: int) -> str:
    """Return the prefix of a tag before its label, from an example's tags."""
    place, end = (1 if is_first else 2), (1 if is_last else 2)
    spans = [Span(1, place + end, "")]
    if adjoins:
        spans.append(Span(0, 1, ""))
    return spans_to_tags(spans, place + end, scheme)[place]


def _behind(values: Any, first: Any) -> Any:
    return tf.concat([tf.constant([first], values.dtype), values], axis=0)


def _describe(
    words: WordTensors, label: Any, score: Any, starts: Any, ends: Any, rows: Any
) -> dict[str, Any]:
    values = {
        "label": label,
        "score": score,
        "start": words.in_text(starts, rows),
        "end": words.in_text(ends, rows),
        "text": words.cut(starts, ends),
    }
    count = tf.size(words.bases)
    dense = {name: graph.rows_of(value, rows, count) for name, value in values.items()}
    return dense | {"count": graph.counts_of(rows, count)}


class QuestionAnswererGraph(graph.TaskGraph):
    """Serves an `AlbertQuestionAnswerer`: `question` and `context` to the answer."""

    # It returns what `answer` does, over the same windows. "No answer" is "" from 0 to
    # 0.

    def signatures(self) -> dict[str, Any]:
        return {
            "serving_default": graph.text_signature(self._find_answers),
            "serve_tokens": self.tokens_signature(self.answer),
        }

    def answer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return dict(self.run(self._with_starts(inputs)))

    def _with_starts(self, inputs: dict[str, Any]) -> dict[str, Any]:
        if self.task.head != "conditional":
            return inputs
        # -1 selects the model's most likely starts.
        rows = tf.shape(inputs["token_ids"])[0]
        unknown = tf.fill(tf.stack([rows, self.task.start_n_top]), -1)
        return inputs | {"start_positions": unknown}

    def _find_answers(self, question: Any, context: Any) -> dict[str, Any]:
        ids, first, last = graph_tokens_with_offsets(self.tokenizer, context)
        windows, packed, offsets = self._windows(question, ids)
        outputs = graph.run_windows(self.task, self._with_starts(packed))
        token, is_owned = windows.places(offsets, tf.shape(packed["token_ids"])[1])
        starts, scores, null = self._search(outputs, is_owned)
        # A piece that is a blank, or half a character, has no text. An extra token
        # keeps the tensors non-empty if all contexts are blank.
        first, last = (tf.concat([x.values, [0]], axis=0) for x in (first, last))
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

    def _windows(self, questions: Any, contexts: Any) -> tuple[Any, Any, Any]:
        """Pack questions with windows of their contexts, as `SpanWindows` does."""
        preprocessor = self.preprocessor
        budget = preprocessor.max_length - 3
        longest = min(preprocessor.max_query_length, budget // 2)
        questions = self.tokenizer.tokenize(questions)[:, :longest]
        kept = questions.row_lengths()
        room = budget - kept
        stride = tf.minimum(tf.constant(preprocessor.doc_stride, tf.int64), room)
        windows = graph.WindowGraph(contexts.row_lengths(), room, stride)
        asked = tf.gather(questions, windows.documents)
        rows = (asked, windows.take(contexts.values))
        offsets = tf.gather(kept, windows.documents) + 2
        return windows, join_in_graph(rows, self.special), offsets

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
        if (threshold := self.task.null_threshold) is not None:
            is_found &= (null if is_conditional else null - best) <= threshold
        is_blank = tf.strings.regex_full_match(contexts, INVISIBLE)
        is_found &= ~is_blank
        start, end = (tf.where(is_found, place, 0) for place in (start, end))
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
