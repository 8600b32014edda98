"""Tokenized contexts with the character offsets of each token."""

from collections.abc import Sequence

import numpy as np

from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer
from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.types import Int64Array, IntArray


class ContextTokens:
    """The tokens of contexts and their character offsets.

    Each distinct text is tokenized once.
    """

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
        self._starts = _flat(starts)
        self._ends = _flat(ends)
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
        """Find the tokens that cover spans of characters.

        Returns the first and last token in the context of each span of characters; last
        < first if no token covers it.
        """
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


def _flat(parts: Sequence[IntArray]) -> Int64Array:
    flat = np.concatenate(parts) if len(parts) else np.empty(0)
    return flat.astype(np.int64)
