"""Questions with contexts of any length, cut into windows."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.text.packing.examples import weights_by_target
from keras_albert.text.packing.pack import EncodedTexts, SpecialIds
from keras_albert.text.packing.windows import OverlappingWindows
from keras_albert.text.question_answering.context_tokens import ContextTokens
from keras_albert.text.tokenizer.token_rows import TokenRows, ragged_range
from keras_albert.types import Batch, Int64Array

# [CLS], and a [SEP] after each of the two texts.
_SPECIALS = 3


class SpanWindows:
    """Tokenized questions and contexts, cut into windows; see `Examples`.

    A row is `[CLS] question [SEP] window [SEP]`. `spans` `(questions, 2)` are the first
    and last token of answers, -1 without one; `num_starts` is `None` for the
    independent head.
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
        num_starts: int | None = None,
    ) -> None:
        self.contexts = contexts
        self.num_starts = num_starts
        budget = max_length - _SPECIALS
        kept = np.minimum(questions.lengths, min(max_query_length, budget // 2))
        room = budget - kept
        lengths = contexts.lengths
        stride = np.minimum(min(doc_stride, budget), room)
        windows = OverlappingWindows(lengths, room, stride)
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

        For the conditional head `x` has `start_positions` `(batch, starts)`, -1 without
        targets, and `y` has `answerability`, 1 without an answer.
        """
        x: dict[str, Any] = self._texts.pack(rows, length)
        if self.targets is None:
            return (head_inputs(x, self.num_starts),)
        starts, ends = self.targets[rows].T
        x = head_inputs(x | {"start_positions": starts[:, None]}, self.num_starts)
        y = {
            "start_logits": starts,
            "end_logits": ends,
            "answerability": (starts == 0).astype(np.float32),
        }
        y = head_targets(y, self.num_starts)
        if self._weights is None:
            return (x, y)
        return (x, y, weights_by_target(y, self._weights[rows]))

    def owned_positions(self, rows: Int64Array, length: int) -> npt.NDArray[np.bool_]:
        """Mark the positions of tokens that a row owns; see `OverlappingWindows`."""
        place = np.arange(length) - self.offsets[rows, None]
        inside = (place >= 0) & (place < self._window_lengths[rows, None])
        owned = np.zeros(inside.shape, bool)
        owned[inside] = self._owned[(place + self._owned_from[rows, None])[inside]]
        return owned


def head_inputs(x: Mapping[str, Any], num_starts: int | None) -> dict[str, Any]:
    """Return the inputs of a head; see `SpanWindows` for `num_starts`.

    The independent head has no `start_positions`; -1 lets the other one choose them.
    """
    inputs = {name: array for name, array in x.items() if name != "start_positions"}
    if num_starts is not None:
        unknown = np.full((len(inputs["token_ids"]), num_starts), -1, np.int32)
        inputs["start_positions"] = x.get("start_positions", unknown)
    return inputs


def head_targets(y: Mapping[str, Any], num_starts: int | None) -> dict[str, Any]:
    """Return the targets of a head.

    For the conditional head `end_logits` become `(rows, 1)`: one end for the one known
    start.
    """
    if num_starts is None:
        return {name: y[name] for name in ("start_logits", "end_logits")}
    return {**y, "end_logits": y["end_logits"][:, None]}
