"""Packs token ids into rows `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`."""

from dataclasses import dataclass

import numpy as np

from keras_albert.text.tokenizer.token_rows import TokenRows, ragged_range
from keras_albert.types import Int64Array, IntArray, Truncation


@dataclass(frozen=True)
class SpecialIds:
    """The ids that packing adds.

    `[CLS]` is the first token of a row; `[SEP]` follows each text.
    """

    cls: int
    sep: int
    pad: int


def check_truncation(truncate: str) -> None:
    """Raise if `truncate` is neither "round_robin" nor "waterfall"."""
    if truncate not in ("round_robin", "waterfall"):
        msg = (
            "`truncate` is 'round_robin' or 'waterfall'. Received: "
            f"truncate={truncate!r}"
        )
        raise ValueError(msg)


def truncated_lengths(
    lengths: tuple[Int64Array, ...], budget: int, truncate: Truncation
) -> tuple[Int64Array, ...]:
    """Return how many tokens of each text are kept.

    Both ways are KerasHub's, in closed form. "round_robin" assigns the budget one token
    at a time, the first text first, so `A = min(a, max(ceil(M / 2), M - b))` and `B =
    min(b, M - A)`; "waterfall" fills it with the first text, then the second. `budget`
    excludes special tokens.
    """
    if len(lengths) == 1:
        return (np.minimum(lengths[0], budget),)
    first, second = lengths
    if truncate == "waterfall":
        first = np.minimum(first, budget)
    else:
        share = np.maximum((budget + 1) // 2, budget - second)
        first = np.minimum(first, share)
    return first, np.minimum(second, budget - first)


class EncodedTexts:
    """Tokenized and truncated texts or pairs, which are packed batch by batch.

    One or two columns of equal length; `max_length` includes special tokens.
    """

    def __init__(
        self,
        columns: tuple[TokenRows, ...],
        special: SpecialIds,
        max_length: int,
        truncate: Truncation = "round_robin",
    ) -> None:
        self.columns = columns
        self.special = special
        budget = max_length - self.num_specials
        lengths = tuple(column.lengths for column in columns)
        self._kept = truncated_lengths(lengths, budget, truncate)
        self._starts = tuple(column.starts for column in columns)
        self.lengths: Int64Array = np.sum(self._kept, axis=0) + self.num_specials

    @property
    def num_specials(self) -> int:
        """The number of special tokens in a row."""
        return len(self.columns) + 1

    def __len__(self) -> int:
        return len(self.columns[0])

    def pack(self, indices: Int64Array, length: int) -> dict[str, IntArray]:
        """Pack some rows into rectangular arrays; see `Examples`.

        Returns `token_ids`, `segment_ids` and `padding_mask`, int32 `(batch, length)`.
        """
        position = np.arange(length)
        rows = np.arange(len(indices))
        special = self.special
        token_ids = np.full((len(indices), length), special.pad, np.int32)
        segment_ids = np.zeros((len(indices), length), np.int32)
        token_ids[:, 0] = special.cls
        begin = np.ones(len(indices), np.int64)
        for segment, column in enumerate(self.columns):
            kept = self._kept[segment][indices]
            end = begin + kept
            inside = (position >= begin[:, None]) & (position < end[:, None])
            # Row by row, from left to right: the order of the ids in `column`.
            source = ragged_range(self._starts[segment][indices], kept)
            token_ids[inside] = column.values[source]
            token_ids[rows, end] = special.sep
            if segment:
                segment_ids[inside] = segment
                segment_ids[rows, end] = segment
            begin = end + 1
        padding_mask = (position < begin[:, None]).astype(np.int32)
        return {
            "token_ids": token_ids,
            "segment_ids": segment_ids,
            "padding_mask": padding_mask,
        }
