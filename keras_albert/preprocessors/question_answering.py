"""Preprocessor of the question answerer: contexts of any length, cut into windows."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import keras
import keras_hub
import numpy as np
import numpy.typing as npt

from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessors.preprocessor import AlbertPreprocessor
from keras_albert.text import packing
from keras_albert.text.reading import text_columns
from keras_albert.text.tokenizer.token_rows import TokenRows, ragged_range
from keras_albert.types import Batch, Int64Array, Lengths
from keras_albert.utils.arguments import check_at_most, check_positive


def question_contexts(x: Any) -> tuple[tuple[list[str], ...], bool]:
    """Read questions and contexts; return also whether they were a batch."""
    is_empty = isinstance(x, list) and not x
    columns, batched = text_columns(([], []) if is_empty else x)
    if len(columns) != 2:
        raise ValueError(
            "Each question needs its context. Received one text for each example. Pass "
            "(questions, contexts), a data set of ((questions, contexts), answers), or "
            "a table."
        )
    return columns, batched


# The correct answers to a question, each with its first character and its text; empty
# if the context does not contain an answer.
Answers: TypeAlias = tuple[tuple[int, str], ...]


def read_answers(y: Any) -> list[Answers]:
    """Read any number of answers for each question; the first is trained on."""
    if isinstance(y, Mapping):
        y = [
            {"text": text, "answer_start": start}
            for text, start in zip(*_columns(y), strict=True)
        ]
    if isinstance(y, str | bytes) or not hasattr(y, "__iter__"):
        raise TypeError(
            "Answers must be a list that holds, for each question, a dict of `text` "
            "and `answer_start`, a pair (start, text), or None for no answer. "
            f"Received: {type(y).__name__}"
        )
    return [_read_row(answer, row) for row, answer in enumerate(y)]


def _columns(y: Mapping[str, Any]) -> tuple[Any, Any]:
    if not {"text", "answer_start"} <= set(y):
        raise ValueError(
            "A dict of answers must have the columns `text` and `answer_start`. "
            f"Received: {sorted(y)}"
        )
    texts, starts = y["text"], y["answer_start"]
    if len(texts) != len(starts):
        raise ValueError(
            f"There are {len(texts)} texts of answers, but {len(starts)} values of "
            "`answer_start`. Each answer needs both."
        )
    return texts, starts


def _read_row(answer: Any, row: int) -> Answers:
    if answer is None:
        return ()
    if isinstance(answer, Mapping):
        try:
            texts, starts = _columns(answer)
        except (TypeError, ValueError):
            # Single values, or invalid ones, which are reported below.
            texts, starts = answer.get("text"), answer.get("answer_start")
        if isinstance(texts, str | bytes):
            texts, starts = [texts], np.reshape(starts, -1)
        are_lists = all(
            isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
            for values in (texts, starts)
        )
        if are_lists and len(texts) == len(starts):
            pairs = zip(starts, texts, strict=True)
            return tuple(_read_pair(start, text, row) for start, text in pairs)
    elif isinstance(answer, tuple | list):
        if len(answer) == 2 and not isinstance(answer[0], tuple | list):
            return (_read_pair(answer[0], answer[1], row),)
        if all(isinstance(part, tuple) and len(part) == 2 for part in answer):
            return tuple(_read_pair(part[0], part[1], row) for part in answer)
    raise ValueError(
        f"Row {row} of the answers is {str(answer)[:80]!r}. Pass a dict of `text` and "
        "`answer_start`, two lists of one length; a pair (start, text); or None where "
        "the context has no answer."
    )


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
            f"{str(text)[:80]!r}. An answer is a text that is not empty, and the "
            "number of its first character in the context, from 0 on; pass None where "
            "there is no answer."
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
                where = (
                    "The context does not have it anywhere: correct the answer, or "
                    "leave its row out"
                    if nearest is None
                    else f"It begins at {nearest}: correct `answer_start`, or pass "
                    'misaligned="repair"'
                )
                raise ValueError(
                    f"The answer of row {row}, {text[:80]!r}, is not what its context "
                    f"has at character {start}: {found[:80]!r}. {where} "
                    '(misaligned="drop" leaves out all such rows).'
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

    def __init__(self, tokenizer: AlbertTokenizer, contexts: Sequence[str]) -> None:
        numbers: dict[str, int] = {}
        # The index of each context among the distinct texts.
        self.text_of: Int64Array = np.fromiter(
            (numbers.setdefault(context, len(numbers)) for context in contexts),
            np.int64,
            len(contexts),
        )
        ids, starts, ends = tokenizer.tokenize_with_offsets(list(numbers), checked=True)
        self.rows = TokenRows.from_arrays(ids)
        self._starts, self._ends = (
            TokenRows.from_arrays(each).values.astype(np.int64)
            for each in (starts, ends)
        )
        # Offsets into all texts, concatenated, so that one sorted search covers them.
        self._room = 1 + max(map(len, numbers), default=0)
        shift = np.repeat(np.arange(len(numbers)) * self._room, self.rows.lengths)
        self._global_starts = self._starts + shift
        self._global_ends = self._ends + shift

    @property
    def lengths(self) -> Int64Array:
        """The number of tokens of each context."""
        return self.rows.lengths[self.text_of]

    @property
    def begins(self) -> Int64Array:
        """Where the tokens of each context begin in `rows.values`."""
        return self.rows.starts[self.text_of]

    def find(
        self, contexts: Int64Array, starts: Int64Array, ends: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return the first and last token of each span; none if last < first."""
        shift = self.text_of[contexts] * self._room
        begins = self.begins[contexts]
        first = np.searchsorted(self._global_ends, starts + shift, side="right")
        last = np.searchsorted(self._global_starts, ends + shift, side="left") - 1
        return first - begins, last - begins

    def characters(
        self, contexts: Int64Array, first: Int64Array, last: Int64Array
    ) -> tuple[Int64Array, Int64Array]:
        """Return the first characters of token spans, and those after the last."""
        begins = self.begins[contexts]
        return self._starts[begins + first], self._ends[begins + last]


# [CLS], and a [SEP] after each of the two texts.
_SPECIALS = 3


class SpanWindows:
    """Rows `[CLS] question [SEP] window [SEP]` of contexts; see `Examples`."""

    # `spans` `(questions, 2)` are the first and last token of answers, -1 without one.

    def __init__(
        self,
        preprocessor: "AlbertQuestionAnswererPreprocessor",
        questions: TokenRows,
        contexts: ContextTokens,
        spans: Int64Array | None = None,
        sample_weight: npt.NDArray[Any] | None = None,
    ) -> None:
        self.contexts = contexts
        self.num_starts = preprocessor.num_starts
        special, max_length = preprocessor.special_ids, preprocessor.max_length
        budget = max_length - _SPECIALS
        longest = min(preprocessor.max_query_length, budget // 2)
        kept = np.minimum(questions.lengths, longest)
        room = budget - kept
        lengths = contexts.lengths
        stride = np.minimum(min(preprocessor.doc_stride, budget), room)
        windows = packing.OverlappingWindows(lengths, room, stride)
        # The question of each row.
        self.questions: Int64Array = windows.documents
        # Windows count in concatenated contexts; here, each distinct text is stored
        # once.
        base = (np.cumsum(lengths) - lengths)[self.questions]
        # Where a window begins in its context, and in its row.
        self.begins: Int64Array = windows.begins - base
        kept = kept[self.questions]
        self.offsets: Int64Array = kept + 2
        self._window_lengths = windows.ends - windows.begins
        # The places of the tokens that a row owns.
        shift = self.offsets - windows.begins
        self._owned_from = windows.owned_from + shift
        self._owned_to = windows.owned_to + shift
        cut, tokens = (
            TokenRows(values[ragged_range(starts, counts)], counts)
            for values, starts, counts in (
                (questions.values, questions.starts[self.questions], kept),
                (
                    contexts.rows.values,
                    contexts.begins[self.questions] + self.begins,
                    self._window_lengths,
                ),
            )
        )
        self._texts = packing.EncodedTexts(
            (cut, tokens), special, max_length, "waterfall"
        )
        self.lengths = self._texts.lengths
        self.targets = None if spans is None else self._window_targets(spans)
        self._weights = None if sample_weight is None else sample_weight[self.questions]

    def __len__(self) -> int:
        return len(self._texts)

    def _window_targets(self, spans: Int64Array) -> npt.NDArray[np.int32]:
        """Return the answer's position in each row; 0, `[CLS]`, if it is incomplete."""
        first, last = spans[self.questions].T
        inside = (first >= self.begins) & (last < self.begins + self._window_lengths)
        shift = self.offsets - self.begins
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
        return (x, y, packing.weights_by_target(y, self._weights[rows]))

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


# Each start of the conditional head takes the memory of a hidden state.
MAX_STARTS = 100


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertQuestionAnswererPreprocessor(
    AlbertPreprocessor, keras_hub.models.Preprocessor
):
    """Tokenize questions and contexts, and find the answers' tokens.

    A row is `[CLS] question [SEP] window [SEP]`. A context that does not fit into one
    row is split into several windows, which together contain all its tokens; the last
    window ends with the context. The targets of a window that does not contain the
    whole answer point to `[CLS]`.

    Args:
        {shared}
        doc_stride: int. Distance in tokens between the starts of consecutive windows,
            at most a window's length. Defaults to `128`.
        max_query_length: int. The length that questions are truncated to; a question
            takes at most half of a row. Defaults to `64`.
        misaligned: string. How an answer is treated that is not found at
            `answer_start` of its context: `"error"` raises, `"repair"` uses the
            nearest place where it is found, `"drop"` drops the question. Defaults to
            `"error"`.
        num_starts: int or `None`. The number of starts that the conditional head
            considers in prediction, 100 at most. It adds the input `start_positions`
            and the target `answerability`; an `AlbertQuestionAnswerer` sets it.
            Defaults to `None`, the independent head.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a number is out of range, or `misaligned` is unknown.

    Example:
        >>> from keras_albert import AlbertQuestionAnswererPreprocessor
        >>> preprocessor = AlbertQuestionAnswererPreprocessor.from_preset(
        ...     "albert_tiny_en_uncased")
        >>> context = "It was found in Rome, in 1848."
        >>> x, y = preprocessor(("found in?", context), (16, "Rome"))
        >>> start, end = int(y["start_logits"][0]), int(y["end_logits"][0])
        >>> preprocessor.tokenizer.detokenize(x["token_ids"][0, start : end + 1])
        'rome'
    """

    read_input = staticmethod(question_contexts)

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        doc_stride: int = 128,
        max_query_length: int = 64,
        misaligned: str = "error",
        pack_sequences: bool = False,
        num_starts: int | None = None,
        **kwargs: Any,
    ) -> None:
        check_positive(
            doc_stride=doc_stride,
            max_query_length=max_query_length,
            num_starts=1 if num_starts is None else num_starts,
        )
        check_at_most(MAX_STARTS, num_starts=num_starts or 1)
        if misaligned not in ("error", "repair", "drop"):
            raise ValueError(
                "`misaligned` must be 'error', 'repair' or 'drop'. Received: "
                f"misaligned={misaligned!r}"
            )
        lengths = sequence_length, max_sequence_length, length_buckets
        super().__init__(tokenizer, *lengths, pack_sequences, **kwargs)
        self.doc_stride = doc_stride
        self.max_query_length = max_query_length
        self.misaligned = misaligned
        self.num_starts = num_starts

    def encode(
        self, x: Any, y: Any = None, sample_weight: Any = None
    ) -> tuple[SpanWindows, bool]:
        """Tokenize questions and contexts; `read_answers` reads the targets."""
        (questions, contexts), batched = self.columns(x)
        weights = None if sample_weight is None else packing.read_weights(sample_weight)
        spans, rows = None, np.arange(len(questions))
        if y is not None:
            answers = read_answers(y if batched else [y])
            packing.check_counts(len(questions), answers, weights)
            spans, dropped = answer_spans(answers, contexts, self.misaligned)
            if dropped:
                rows = np.setdiff1d(rows, dropped)
                questions = [questions[row] for row in rows]
                contexts = [contexts[row] for row in rows]
                spans = spans[rows]
                weights = None if weights is None else weights[rows]
        (question_rows,) = self.tokenize_columns([questions])
        context_tokens = ContextTokens(self.tokenizer, contexts)
        _refuse_blank(question_rows.lengths, "question", rows)
        _refuse_blank(context_tokens.lengths, "context", rows)
        if spans is not None:
            spans = _token_spans(spans, context_tokens, rows)
        return SpanWindows(self, question_rows, context_tokens, spans, weights), batched

    def call(self, x: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Preprocess questions and contexts, with answers as targets.

        The result is always a batch, since a question may have several rows; see
        `SpanWindows.pack`.
        """
        windows, _ = self.encode(x, y, sample_weight)
        return keras.utils.pack_x_y_sample_weight(
            *packing.pack_all(windows, self.padded_length, True)
        )


def _refuse_blank(lengths: Int64Array, what: str, rows: Int64Array) -> None:
    blank = lengths == 0
    if blank.any():
        raise ValueError(
            f"The {what} of row {rows[blank.argmax()]} is empty. An answer needs a "
            "question and a context: fill it in, or leave the row out."
        )


def _token_spans(
    spans: Int64Array, contexts: ContextTokens, rows: Int64Array
) -> Int64Array:
    """Convert spans of characters to spans of tokens; -1 is kept (no answer)."""
    answered = np.flatnonzero(spans[:, 0] >= 0)
    first, last = contexts.find(answered, *spans[answered].T)
    lost = last < first
    if lost.any():
        raise ValueError(
            f"The answer of row {rows[answered[lost.argmax()]]} has nothing that the "
            "vocabulary sees (it is a mark or a joiner without width). Choose one with "
            "a letter, a digit or a symbol."
        )
    tokens = np.full_like(spans, -1)
    tokens[answered] = np.stack([first, last], axis=1)
    return tokens
