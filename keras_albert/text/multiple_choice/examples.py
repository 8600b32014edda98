"""Tokenized questions, packed with one row per choice."""

from dataclasses import dataclass

import numpy as np

from keras_albert.text.packing.pack import EncodedTexts, SpecialIds
from keras_albert.text.tokenizer.token_rows import TokenRows, ragged_range
from keras_albert.types import Int64Array, IntArray


@dataclass(frozen=True)
class _Cut:
    """The start and the number of the ids of each row that are kept."""

    begins: Int64Array
    lengths: Int64Array


class ChoiceRows:
    """Questions whose choices are packed as rows `[CLS] text [SEP] choice [SEP]`.

    As in the reference, the last `max_choice_length` tokens of a choice are kept, and
    the text, which all choices of a question share, is truncated to the rest of the
    row. `texts` are distinct, and `text_numbers` index them for each question;
    `choices` of all questions are concatenated, `counts` of each.
    """

    def __init__(
        self,
        texts: TokenRows,
        text_numbers: Int64Array,
        choices: TokenRows,
        counts: Int64Array,
        special: SpecialIds,
        max_length: int,
        max_choice_length: int,
    ) -> None:
        self.texts = texts
        self.choices = choices
        self.counts = counts
        self.special = special
        self.max_length = max_length
        # Leaves room for `[CLS]`, two `[SEP]` and one token of the text.
        longest = min(max_choice_length, max_length - 4)
        kept = np.minimum(choices.lengths, longest)
        self._choices = _Cut(choices.lengths - kept, kept)
        self._text_numbers = np.repeat(text_numbers, counts)
        room = max_length - 3 - kept
        kept_text = np.minimum(texts.lengths[self._text_numbers], room)
        self._texts = _Cut(np.zeros_like(kept), kept_text)
        self._firsts = np.cumsum(counts) - counts
        rows = kept + kept_text + 3
        present = np.arange(counts.max(initial=1)) < counts[:, None]
        self.text_lengths: Int64Array = np.zeros(present.shape, np.int64)
        self.text_lengths[present] = rows
        self.lengths: Int64Array = self.text_lengths.max(axis=1)

    def __len__(self) -> int:
        return len(self.counts)

    def pack(self, indices: Int64Array, length: int) -> dict[str, IntArray]:
        """Pack some questions; see `Examples`.

        Arrays are `(batch, choices, length)`; a missing choice contains only padding.
        """
        counts = self.counts[indices]
        most = int(counts.max(initial=1))
        present = np.arange(most) < counts[:, None]
        rows = (self._firsts[indices][:, None] + np.arange(most))[present]
        columns = (
            _take(self.texts, self._text_numbers[rows], self._texts, rows),
            _take(self.choices, rows, self._choices, rows),
        )
        packed = EncodedTexts(columns, self.special, self.max_length).pack(
            np.arange(len(rows)), length
        )
        boxes = {}
        for name, values in packed.items():
            fill = self.special.pad if name == "token_ids" else 0
            boxes[name] = np.full((*present.shape, length), fill, np.int32)
            boxes[name][present] = values
        return boxes


def _take(
    source: TokenRows, numbers: Int64Array, cut: _Cut, rows: Int64Array
) -> TokenRows:
    """Return the ids that are kept of some rows of `source`."""
    lengths = cut.lengths[rows]
    starts = source.starts[numbers] + cut.begins[rows]
    return TokenRows(source.values[ragged_range(starts, lengths)], lengths)
