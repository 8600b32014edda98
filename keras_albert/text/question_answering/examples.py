"""Questions with contexts of any length, cut into windows."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.text.packing.pack import EncodedTexts, SpecialIds
from keras_albert.text.packing.windows import OverlappingWindows
from keras_albert.text.question_answering.context_tokens import ContextTokens
from keras_albert.text.tokenizer.token_rows import TokenRows, ragged_range
from keras_albert.types import Batch, Int64Array

# [CLS], and a [SEP] after each of the two texts.
_SPECIALS = 3


class SpanWindows:
    """Tokenized questions and contexts, cut into windows; see `Examples`.

    A row is `[CLS] question [SEP] window [SEP]`.

    Args:
        questions: `TokenRows`.
        contexts: `ContextTokens`, one context per question, each with at least one
            token.
        special: `SpecialIds`.
        max_length: int. The maximum length of a row, including special tokens.
        doc_stride: int. Distance in tokens between the starts of consecutive windows;
            at most the length of a window.
        max_query_length: int. The length that questions are truncated to. A question
            takes at most half of a row.
        spans: int64 array `(questions, 2)`, or `None`. The first and the last token
            of each answer, or -1 without an answer. Defaults to `None`, no targets.
        sample_weight: Array `(questions,)`, or `None`. Defaults to `None`.
    """

    def __init__(
        self,
        questions: TokenRows,
        contexts: ContextTokens,
        special: SpecialIds,
        max_length: int,
        doc_stride: int,
        max_query_length: int,
        spans: Int64Array | None = None,
        sample_weight: npt.NDArray[Any] | None = None,
    ) -> None:
        self.contexts = contexts
        budget = max_length - _SPECIALS
        kept = np.minimum(questions.lengths, min(max_query_length, budget // 2))
        room = budget - kept
        lengths = contexts.lengths
        windows = OverlappingWindows(lengths, room, np.minimum(doc_stride, room))
        # The question of each row.
        self.questions: Int64Array = windows.documents
        rows = windows.tokens
        # Windows count in concatenated contexts; here, each distinct text is stored
        # once.
        base = np.cumsum(lengths) - lengths
        place = rows.values - np.repeat(base[self.questions], rows.lengths)
        source = place + np.repeat(contexts.begins[self.questions], rows.lengths)
        tokens = TokenRows(contexts.rows.values[source], rows.lengths)
        # Where a window begins in its row, and in its context.
        self.offsets: Int64Array = kept[self.questions] + 2
        self.begins: Int64Array = place[rows.starts].astype(np.int64)
        self._owned = windows.owned
        self._owned_from = rows.starts
        self._window_lengths = rows.lengths
        first = ragged_range(questions.starts, kept)
        cut = TokenRows(questions.values[first], kept).take(self.questions)
        self._texts = EncodedTexts((cut, tokens), special, max_length, "waterfall")
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
        """Pack some rows; see `Examples`.

        Returns:
            `(x,)`, or with targets `(x, y)` or `(x, y, sample_weight)`. `x` contains
            `token_ids`, `segment_ids` and `padding_mask`, and with targets
            `start_positions`, `(batch, 1)`, an input of the conditional head. `y`
            contains three arrays `(batch,)`: `start_logits` and `end_logits`, the
            answer's position in the row, and `answerability`, 1 without an answer.
        """
        x: dict[str, Any] = self._texts.pack(rows, length)
        if self.targets is None:
            return (x,)
        starts, ends = self.targets[rows].T
        x["start_positions"] = starts[:, None]
        y = {
            "start_logits": starts,
            "end_logits": ends,
            "answerability": (starts == 0).astype(np.float32),
        }
        return (x, y) if self._weights is None else (x, y, self._weights[rows])

    def owned_positions(self, rows: Int64Array, length: int) -> npt.NDArray[np.bool_]:
        """Mark the positions of the tokens that a row owns; see `OverlappingWindows`.

        Returns:
            Boolean array `(batch, length)`.
        """
        place = np.arange(length) - self.offsets[rows, None]
        inside = (place >= 0) & (place < self._window_lengths[rows, None])
        owned = np.zeros(inside.shape, bool)
        owned[inside] = self._owned[(place + self._owned_from[rows, None])[inside]]
        return owned
