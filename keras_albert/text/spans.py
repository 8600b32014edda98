"""Answers as spans of a context: windows of contexts, their targets and answers."""

import operator
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_albert.text.packing import (
    EncodedTexts,
    SpecialIds,
    TokenRows,
    distinct,
    ragged_range,
    weights_by_target,
)
from keras_albert.text.reading import text_columns
from keras_albert.text.tokenizer.vocabularies import Vocabulary
from keras_albert.text.windows import OverlappingWindows
from keras_albert.types import Batch, FloatArray, Int64Array


def question_contexts(x: Any) -> tuple[tuple[list[str], ...], bool]:
    """Read questions and contexts; return also whether they were a batch."""
    is_empty = isinstance(x, list) and not x
    columns, batched = text_columns(([], []) if is_empty else x)
    if len(columns) != 2:
        raise ValueError(
            "Each question needs its context. Pass (questions, contexts), a data set "
            "of ((questions, contexts), answers), or a table."
        )
    return columns, batched


# The correct answers to a question, each with its first character and its text; empty
# if the context does not contain an answer.
Answers: TypeAlias = tuple[tuple[int, str], ...]


def read_answers(y: Any) -> list[Answers]:
    """Read any number of answers for each question; the first is trained on."""
    if isinstance(y, Mapping):
        texts, starts = y["text"], y["answer_start"]
        if len(texts) != len(starts):
            raise ValueError(
                f"There are {len(texts)} texts of answers, but {len(starts)} values of "
                "`answer_start`. Each answer needs both."
            )
        columns = zip(texts, starts, strict=True)
        y = [{"text": text, "answer_start": start} for text, start in columns]
    if isinstance(y, str | bytes) or not hasattr(y, "__iter__"):
        raise TypeError(
            "Answers must be a list with, for each question, a dict of `text` and "
            "`answer_start`, a pair (start, text), or None for no answer. Received: "
            f"{type(y).__name__}"
        )
    return [_read_row(answer, row) for row, answer in enumerate(y)]


def _read_row(answer: Any, row: int) -> Answers:
    pairs: Any = () if answer is None else answer
    if isinstance(answer, Mapping):
        texts: Any = answer.get("text")
        starts: Any = answer.get("answer_start")
        if isinstance(texts, str | bytes):
            texts, starts = [texts], np.reshape(starts, -1)
        try:
            pairs = tuple(zip(starts, texts, strict=True))
        except (TypeError, ValueError):
            pairs = None
    elif isinstance(answer, tuple | list) and len(answer) == 2:
        is_pair = not isinstance(answer[0], tuple | list)
        pairs = (tuple(answer),) if is_pair else answer
    if not isinstance(pairs, tuple | list) or not all(
        isinstance(pair, tuple) and len(pair) == 2 for pair in pairs
    ):
        raise ValueError(
            f"Row {row} of the answers is {str(answer)[:80]!r}. Pass a dict of `text` "
            "and `answer_start`, two lists of one length; a pair (start, text); or "
            "None where the context has no answer."
        )
    return tuple(_read_pair(start, text, row) for start, text in pairs)


def _read_pair(start: Any, text: Any, row: int) -> tuple[int, str]:
    if isinstance(text, bytes):
        text = text.decode()
    try:
        first = -1 if isinstance(start, bool) else operator.index(start)
    except TypeError:
        first = -1
    if first < 0 or not isinstance(text, str) or not text.strip():
        raise ValueError(
            f"Row {row} of the answers has the start {start!r} and the text "
            f"{str(text)[:80]!r}. An answer is the number of its first character in "
            "the context, from 0 on, and a text that is not empty."
        )
    return first, text


def answer_spans(
    answers: Sequence[Answers], contexts: Sequence[str], misaligned: str = "error"
) -> tuple[np.ndarray[Any, np.dtype[np.int64]], list[int]]:
    """Find the characters of first answers, -1 for none, and questions to drop."""
    spans = np.full((len(answers), 2), -1, np.int64)
    dropped = []
    for row, (pairs, context) in enumerate(zip(answers, contexts, strict=True)):
        if not pairs:
            continue
        start, text = pairs[0]
        if not context.startswith(text, start):
            found = context[start : start + len(text)]
            nearest = _nearest(context, text, start)
            if misaligned == "drop":
                dropped.append(row)
                continue
            if misaligned != "repair" or nearest is None:
                where = "is not in its context"
                if nearest is not None:
                    where = f'starts at {nearest} (misaligned="repair" takes that)'
                raise ValueError(
                    f"The answer of row {row}, {text[:80]!r}, is not what its context "
                    f"has at character {start}: {found[:80]!r}. It {where}. Correct "
                    'it, or pass misaligned="drop", which leaves out such rows.'
                )
            start = nearest
        # Whitespace around an answer does not belong to any token.
        lead = len(text) - len(text.lstrip())
        spans[row] = start + lead, start + len(text.rstrip())
    return spans, dropped


def _nearest(context: str, text: str, start: int) -> int | None:
    places = context.rfind(text, 0, start + len(text)), context.find(text, start)
    found = [place for place in places if place >= 0]
    return min(found, key=lambda place: abs(place - start), default=None)


class ContextTokens:
    """The tokens of contexts and their offsets; each text is tokenized once."""

    def __init__(self, vocabulary: Vocabulary, contexts: Sequence[str]) -> None:
        # The index of each context among the distinct texts.
        texts, self.text_of = distinct(contexts)
        found = vocabulary.encode_with_offsets(texts)
        self.rows, starts, ends = (
            TokenRows.from_arrays([row[part] for row in found]) for part in range(3)
        )
        self._starts = starts.values.astype(np.int64)
        self._ends = ends.values.astype(np.int64)
        # Offsets into all texts, concatenated, so that one sorted search covers them.
        self._room = 1 + max(map(len, texts), default=0)
        shift = np.repeat(np.arange(len(texts)) * self._room, self.rows.lengths)
        self._global_starts = self._starts + shift
        self._global_ends = self._ends + shift

    @property
    def lengths(self) -> Int64Array:
        """The number of tokens of each context."""
        return self.rows.lengths[self.text_of]

    @property
    def starts(self) -> Int64Array:
        """Where the tokens of each context start in `rows.values`."""
        return self.rows.starts[self.text_of]

    def find(
        self, contexts: Int64Array, starts: Int64Array, ends: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return the first and last token of each span; none if last < first."""
        shift = self.text_of[contexts] * self._room
        base = self.starts[contexts]
        first = np.searchsorted(self._global_ends, starts + shift, side="right")
        last = np.searchsorted(self._global_starts, ends + shift, side="left") - 1
        return first - base, last - base

    def characters(
        self, contexts: Int64Array, first: Int64Array, last: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return the first characters of token spans, and those after the last."""
        base = self.starts[contexts]
        return self._starts[base + first], self._ends[base + last]


# [CLS], and a [SEP] after each of the two texts.
_SPECIALS = 3


class SpanWindows:
    """Rows `[CLS] question [SEP] window [SEP]` of contexts; see `Examples`."""

    # `spans` `(questions, 2)` are the first and last token of answers, -1 without one.

    def __init__(
        self,
        questions: TokenRows,
        contexts: ContextTokens,
        special: SpecialIds,
        max_length: int,
        doc_stride: int,
        max_query_length: int,
        num_starts: int | None = None,
        spans: Int64Array | None = None,
        sample_weight: npt.NDArray[Any] | None = None,
    ) -> None:
        self.contexts = contexts
        self.num_starts = num_starts
        budget = max_length - _SPECIALS
        longest = min(max_query_length, budget // 2)
        kept = np.minimum(questions.lengths, longest)
        room = budget - kept
        lengths = contexts.lengths
        stride = np.minimum(min(doc_stride, budget), room)
        windows = OverlappingWindows(lengths, room, stride)
        # The question of each row.
        self.questions: Int64Array = windows.documents
        # Windows count in concatenated contexts; here, each distinct text is stored
        # once.
        base = (np.cumsum(lengths) - lengths)[self.questions]
        # Where a window starts in its context, and in its row.
        self.starts: Int64Array = windows.starts - base
        kept = kept[self.questions]
        self.offsets: Int64Array = kept + 2
        self._window_lengths = windows.ends - windows.starts
        # The places of the tokens that a row owns.
        shift = self.offsets - windows.starts
        self._owned_from = windows.owned_from + shift
        self._owned_to = windows.owned_to + shift
        cut, tokens = (
            TokenRows(values[ragged_range(starts, counts)], counts)
            for values, starts, counts in (
                (questions.values, questions.starts[self.questions], kept),
                (
                    contexts.rows.values,
                    contexts.starts[self.questions] + self.starts,
                    self._window_lengths,
                ),
            )
        )
        self._texts = EncodedTexts((cut, tokens), special, max_length, "waterfall")
        self.lengths = self._texts.lengths
        self.targets = None if spans is None else self._window_targets(spans)
        self._weights = None if sample_weight is None else sample_weight[self.questions]

    def __len__(self) -> int:
        return len(self._texts)

    def _window_targets(self, spans: Int64Array) -> npt.NDArray[np.int32]:
        """Return the answer's position in each row; 0, `[CLS]`, if it is incomplete."""
        first, last = spans[self.questions].T
        inside = (first >= self.starts) & (last < self.starts + self._window_lengths)
        shift = self.offsets - self.starts
        targets = np.stack([first + shift, last + shift], axis=1)
        return np.where(inside[:, None], targets, 0).astype(np.int32)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows; `start_positions` are -1 without targets. See `Examples`."""
        x: dict[str, Any] = self._texts.pack(rows, length)
        if self.targets is None:
            return (head_inputs(x, self.num_starts),)
        starts, ends = self.targets[rows].T
        x = head_inputs(x | {"start_positions": starts[:, None]}, self.num_starts)
        is_none = (starts == 0).astype(np.float32)
        y = {"start_logits": starts, "end_logits": ends, "answerability": is_none}
        y = head_targets(y, self.num_starts)
        if self._weights is None:
            return (x, y)
        return (x, y, weights_by_target(y, self._weights[rows]))

    def owned_positions(self, rows: Int64Array, length: int) -> npt.NDArray[np.bool_]:
        """Mark the positions of tokens that a row owns; see `OverlappingWindows`."""
        place = np.arange(length)
        low, high = self._owned_from[rows, None], self._owned_to[rows, None]
        return np.asarray((place >= low) & (place < high))


def head_inputs(x: Mapping[str, Any], num_starts: int | None) -> dict[str, Any]:
    """Return the inputs of a head; -1 lets the conditional one choose starts."""
    inputs = {name: array for name, array in x.items() if name != "start_positions"}
    if num_starts is not None:
        unknown = np.full((len(inputs["token_ids"]), num_starts), -1, np.int32)
        inputs["start_positions"] = x.get("start_positions", unknown)
    return inputs


def head_targets(y: Mapping[str, Any], num_starts: int | None) -> dict[str, Any]:
    """Return the targets of a head; the conditional one has one end a row."""
    if num_starts is None:
        return {name: y[name] for name in ("start_logits", "end_logits")}
    return {**y, "end_logits": y["end_logits"][:, None]}


def refuse_blank(lengths: Int64Array, what: str, rows: Int64Array) -> None:
    """Raise if one of the questions or contexts has no tokens."""
    blank = lengths == 0
    if blank.any():
        row = rows[blank.argmax()]
        raise ValueError(f"The {what} of row {row} is empty. Fill it in, or drop it.")


def token_spans(
    spans: Int64Array, contexts: ContextTokens, rows: Int64Array
) -> Int64Array:
    """Convert spans of characters to spans of tokens; -1 is kept (no answer)."""
    answered = np.flatnonzero(spans[:, 0] >= 0)
    first, last = contexts.find(answered, *spans[answered].T)
    lost = last < first
    if lost.any():
        row = rows[answered[lost.argmax()]]
        msg = f"The answer of row {row} has no tokens: it is a mark or has no width."
        raise ValueError(msg)
    tokens = np.full_like(spans, -1)
    tokens[answered] = np.stack([first, last], axis=1)
    return tokens


# Windows that are searched at once, to limit memory.
_WINDOWS_AT_ONCE = 64


# Only the log-probability of a masked position is as low.
_IMPOSSIBLE = -1e20


@dataclass(frozen=True)
class SpanCandidates:
    """The most likely answers of each question, and the least score of "no answer"."""

    starts: list[Int64Array]
    ends: list[Int64Array]
    scores: list[npt.NDArray[Any]]
    null_scores: npt.NDArray[Any]
    null_probabilities: npt.NDArray[Any]

    def best_texts(self, contexts: Sequence[str]) -> list[str]:
        """Return the most likely answer of each question; empty if there is none."""
        rows = zip(contexts, self.starts, self.ends, strict=True)
        return [
            text[starts[0] : ends[0]] if len(starts) else ""
            for text, starts, ends in rows
        ]


def span_candidates(
    outputs: Mapping[str, FloatArray],
    windows: SpanWindows,
    max_answer_length: int,
    n_best: int,
    end_n_top: int,
) -> SpanCandidates:
    """Search for answers, a start in the window with the most context around it."""
    length = outputs["start_logits"].shape[1]
    max_answer_length = min(max_answer_length, length)
    is_conditional = "answerability" in outputs
    found = []
    for first in range(0, len(windows), _WINDOWS_AT_ONCE):
        part = slice(first, first + _WINDOWS_AT_ONCE)
        rows = np.arange(len(windows))[part]
        start_scores = _log_softmax(outputs["start_logits"][part])
        owned = windows.owned_positions(rows, length)
        masked = np.where(owned, start_scores, -np.inf)
        end_scores = _log_softmax(outputs["end_logits"][part])
        if is_conditional:
            # The starts that the model followed, in its order.
            order = np.argsort(-outputs["start_logits"][part], axis=1, kind="stable")
            starts = order[:, : end_scores.shape[1]]
            end_scores = end_scores[:, : starts.shape[1]]
            bands = _bands(end_scores, starts, max_answer_length)
            bands = _keep_largest(bands, end_n_top)
            masked = np.take_along_axis(masked, starts, axis=1)
            null = outputs["answerability"][part, 0].astype(np.float64)
        else:
            starts = np.arange(length)[None]
            bands = _bands(end_scores[:, None], starts, max_answer_length)
            null = start_scores[:, 0] + end_scores[:, 0]
        bands += masked[..., None]
        found.append((rows, *_largest(bands, starts, n_best), null))
    return _collect(windows, found, is_conditional)


def _log_softmax(logits: FloatArray) -> npt.NDArray[Any]:
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))


def _bands(
    end_scores: npt.NDArray[Any], starts: Int64Array, width: int
) -> npt.NDArray[Any]:
    """Return the scores of the ends from each start on, `(windows, starts, width)`."""
    *shape, length = end_scores.shape
    padded = np.full((*shape, length + width - 1), -np.inf)
    padded[..., :length] = end_scores
    return np.take_along_axis(padded, starts[..., None] + np.arange(width), axis=-1)


def _keep_largest(scores: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    if count >= scores.shape[-1]:
        return scores
    least = np.partition(scores, -count, axis=-1)[..., -count, None]
    return np.where(scores >= least, scores, -np.inf)


def _largest(
    scores: npt.NDArray[Any], starts: Int64Array, count: int
) -> tuple[Int64Array, Int64Array, npt.NDArray[Any]]:
    """Return each window's best starts, ends and scores, `(windows, count)`."""
    width = scores.shape[-1]
    flat = scores.reshape(len(scores), -1)
    best = np.argpartition(-flat, min(count, flat.shape[1]) - 1, axis=1)[:, :count]
    first = np.take_along_axis(starts, best // width, axis=1)
    return first, first + best % width, np.take_along_axis(flat, best, axis=1)


def _collect(windows: SpanWindows, found: list[Any], is_logit: bool) -> SpanCandidates:
    """Join the candidates of the windows of each question."""
    count = len(windows.contexts.lengths)
    parts = zip(*found, strict=True)
    rows, first, last, scores, null = (np.concatenate(part) for part in parts)
    shift = (windows.starts - windows.offsets)[rows, None]
    questions = np.repeat(windows.questions[rows], first.shape[1])
    scores = scores.ravel()
    possible = scores > _IMPOSSIBLE
    questions, scores = questions[possible], scores[possible]
    starts, ends = windows.contexts.characters(
        questions, (first + shift).ravel()[possible], (last + shift).ravel()[possible]
    )
    # The piece of a blank, or of half a character, is no text.
    kept = np.flatnonzero(ends > starts)
    order = kept[np.lexsort((-scores[kept], questions[kept]))]
    cuts = np.searchsorted(questions[order], np.arange(count + 1))
    places = [order[start:end] for start, end in pairwise(cuts)]
    least = np.full(count, np.inf)
    np.minimum.at(least, windows.questions, null)
    if is_logit:
        null_scores, probabilities = least, 1 / (1 + np.exp(-least))
    else:
        best = [scores[place].max(initial=-np.inf) for place in places]
        null_scores, probabilities = least - best, np.exp(least)
    return SpanCandidates(
        [starts[place] for place in places],
        [ends[place] for place in places],
        [scores[place] for place in places],
        null_scores,
        probabilities,
    )


# Where a context has nothing to read.
NO_ANSWER: dict[str, Any] = {"answer": "", "score": 1.0, "start": 0, "end": 0}


# Such contexts, see `is_invisible`, for the graphs of exports.
INVISIBLE = r"[\p{Z}\p{M}\p{Cc}\p{Cf}]*"


def is_invisible(text: str) -> bool:
    """Return whether a text has no visible character: blanks, controls, marks alone."""
    kinds = {unicodedata.category(character) for character in set(text)}
    return all(kind in ("Cc", "Cf") or kind[0] in "ZM" for kind in kinds)


def rank_answers(
    found: SpanCandidates, row: int, context: str, null_threshold: float | None
) -> list[dict[str, Any]]:
    """Return the answers to one question, and "no answer", the most likely first."""
    spans = zip(found.starts[row], found.ends[row], found.scores[row], strict=True)
    ranked = [
        _describe(context, int(start), int(end), float(np.exp(score)))
        for start, end, score in spans
    ]
    if null_threshold is None and ranked:
        return ranked
    probability = float(found.null_probabilities[row])
    nothing = _describe(context, 0, 0, probability)
    if not ranked or found.null_scores[row] > null_threshold:
        return [nothing, *ranked]
    place = sum(answer["score"] >= probability for answer in ranked)
    ranked.insert(max(1, place), nothing)
    return ranked


def _describe(context: str, start: int, end: int, score: float) -> dict[str, Any]:
    text = context[start:end]
    return {"answer": text, "score": score, "start": start, "end": end}
