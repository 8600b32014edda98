"""Questions that are tokenized: for each choice a row, to be packed."""

from dataclasses import dataclass

import numpy as np

from keras_albert.text.packing.pack import EncodedTexts, SpecialIds
from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.types import Int64Array, IntArray


@dataclass(frozen=True)
class _Cut:
    """Where the ids of a row begin that stay, and how many they are."""

    begins: Int64Array
    lengths: Int64Array


class ChoiceRows:
    """Questions whose choices become the rows `[CLS] text [SEP] choice [SEP]`.

    As in the reference, a choice keeps its last `max_choice_length` tokens, and the
    text, which all choices of a question share, has the rest of the row.

    Args:
        texts: `TokenRows`. Each distinct text once.
        text_numbers: int64 array `(questions,)`. Which text belongs to a question.
        choices: `TokenRows`. The choices of all questions, one after the other.
        counts: int64 array `(questions,)`. How many belong to each, at least one.
        special: `SpecialIds`.
        max_length: int. The most tokens in a row.
        max_choice_length: int. The most tokens of a choice.

    Example:
        >>> rows = ChoiceRows(
        ...     TokenRows.from_lists([[7, 8, 9]]), np.array([0]),
        ...     TokenRows.from_lists([[5], [5, 6]]), np.array([2]),
        ...     SpecialIds(2, 3, 0), max_length=7, max_choice_length=2)
        >>> rows.lengths.tolist()
        [7]
        >>> rows.pack(np.array([0]), 7)["token_ids"].tolist()
        [[[2, 7, 8, 9, 3, 5, 3], [2, 7, 8, 3, 5, 6, 3]]]
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
        # `[CLS]`, two `[SEP]`, and a token of the text.
        longest = min(max_choice_length, max_length - 4)
        kept = np.minimum(choices.lengths, longest)
        self._choices = _Cut(choices.lengths - kept, kept)
        self._text_numbers = np.repeat(text_numbers, counts)
        room = max_length - 3 - kept
        kept_text = np.minimum(texts.lengths[self._text_numbers], room)
        self._texts = _Cut(np.zeros_like(kept), kept_text)
        self._firsts = np.cumsum(counts) - counts
        rows = kept + kept_text + 3
        self.lengths: Int64Array = (
            np.maximum.reduceat(rows, self._firsts) if len(counts) else rows
        )

    def __len__(self) -> int:
        return len(self.counts)

    def pack(self, indices: Int64Array, length: int) -> dict[str, IntArray]:
        """Pack some questions into boxes.

        Args:
            indices: int64 array `(batch,)`. Which questions, in which order.
            length: int. The width of the result, at least the longest row's length.

        Returns:
            `token_ids`, `segment_ids` and `padding_mask`, int32
            `(batch, choices, length)`. A question with fewer choices than others has
            padding alone in the rows of those that it lacks.
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
    """Take the ids that stay of some rows of `source`."""
    lengths = cut.lengths[rows]
    starts = source.starts[numbers] + cut.begins[rows]
    shift = starts - (np.cumsum(lengths) - lengths)
    return TokenRows(
        source.values[np.arange(lengths.sum()) + np.repeat(shift, lengths)], lengths
    )
