"""Whole-word masking, vectorized over rows."""

import math
import re
import unicodedata
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_albert.text.random_rows import Draws, number_in_row, uniform
from keras_albert.text.tokenizer.text_rules import UNSPACED
from keras_albert.types import FloatArray, Int64Array, IntArray
from keras_albert.utils.arguments import check_at_most, check_positive, check_rates

# Which words of a run are masked.
_NOT, _FIRST_WORD, _WHOLE = 0, 1, 2

# Each length of a run has a probability, and each row a slot for the last run.
_MAX_WORDS = 1000


class MaskedRows(NamedTuple):
    """Masked rows and their targets `(rows, slots)`, 0 in unused slots."""

    token_ids: IntArray
    positions: IntArray
    labels: IntArray
    weights: FloatArray


@dataclass(frozen=True)
class MaskingRates:
    """The rates of masking, and of what selected tokens become."""

    mask_selection_rate: float = 0.15
    mask_token_rate: float = 0.8
    random_token_rate: float = 0.1
    max_ngram: int = 3
    mask_selection_length: int | None = None

    def __post_init__(self) -> None:
        check_rates(
            mask_selection_rate=self.mask_selection_rate,
            mask_token_rate=self.mask_token_rate,
            random_token_rate=self.random_token_rate,
        )
        # Allows for rounding, as in 0.7 + 0.2 + 0.1.
        if self.mask_token_rate + self.random_token_rate > 1 + 1e-9:
            raise ValueError(
                "`mask_token_rate` and `random_token_rate` are fractions of the "
                "selected tokens; their sum must be at most 1. Received: "
                f"mask_token_rate={self.mask_token_rate}, "
                f"random_token_rate={self.random_token_rate}"
            )
        check_positive(max_ngram=self.max_ngram)
        check_at_most(_MAX_WORDS, max_ngram=self.max_ngram)
        if self.mask_selection_length is not None:
            check_positive(mask_selection_length=self.mask_selection_length)

    def slots(self, width: int) -> int:
        """Return the number of predictions in rows of `width`, including padding."""
        if self.mask_selection_length is not None:
            return self.mask_selection_length
        return min(width, math.ceil(self.mask_selection_rate * width) + self.max_ngram)


class WholeWordMasking:
    """Masks whole words of many rows, in runs of up to `max_ngram` words."""

    # The words of a row (see `WordStarts`) are split at random into runs. Runs are
    # selected until they contain about `mask_selection_rate` of the row's tokens, and
    # one word at least. Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942),
    # section 4.1, and [Joshi et al., 2020](https://arxiv.org/abs/1907.10529).

    def __init__(self, tokenizer: Any, rates: MaskingRates | None = None) -> None:
        self.rates = rates or MaskingRates()
        self.word_starts = WordStarts(tokenizer)
        self.mask_token_id = int(tokenizer.mask_token_id)
        self.pad_token_id = int(tokenizer.pad_token_id)
        self._drawable: IntArray = tokenizer.vocabulary.text_ids
        if not len(self._drawable):
            raise ValueError(
                f"The vocabulary's {tokenizer.vocabulary_size()} pieces are all "
                "special, but masking needs others to draw from. Train one with "
                "`keras_albert.text.train_vocabulary`."
            )
        weights = 1 / np.arange(1, self.rates.max_ngram + 1)
        self._ngram_steps = np.cumsum(weights / weights.sum())

    def __call__(self, token_ids: IntArray, draws: Draws) -> MaskedRows:
        """Mask packed rows; the same state of `draws` results in the same masks."""
        num_rows, width = token_ids.shape
        slots = self.rates.slots(width)
        chosen = self._choose(token_ids, draws)
        rows = chosen // width
        slot, shape = number_in_row(rows), (num_rows, slots)
        positions, labels = np.zeros((2, *shape), np.int32)
        weights = np.zeros(shape, np.float32)
        flat = token_ids.reshape(-1)
        positions[rows, slot] = chosen % width
        labels[rows, slot] = flat[chosen]
        weights[rows, slot] = 1.0
        masked = flat.astype(np.int32)
        masked[chosen] = self._replace(flat[chosen], rows, draws)
        return MaskedRows(masked.reshape(token_ids.shape), positions, labels, weights)

    def _replace(self, kept: IntArray, rows: Int64Array, draws: Draws) -> IntArray:
        """Draw the replacements of the selected tokens."""
        draw = uniform(draws, rows)
        places = uniform(draws, rows) * len(self._drawable)
        random_ids = self._drawable[places.astype(np.int64)]
        swapped = draw < self.rates.mask_token_rate + self.rates.random_token_rate
        ids = np.where(swapped, random_ids, kept)
        ids[draw < self.rates.mask_token_rate] = self.mask_token_id
        return ids

    def _choose(self, token_ids: IntArray, draws: Draws) -> Int64Array:
        """Choose the tokens to predict, as sorted indices of the flattened rows."""
        if not self.rates.mask_selection_rate:
            return np.empty(0, np.int64)
        num_rows, width = token_ids.shape
        # Computed without the padding, so that padding does not change the masks.
        lengths = (token_ids != self.pad_token_id).sum(axis=1).tolist()
        slots = np.array([self.rates.slots(length) for length in lengths], np.int64)
        places = np.flatnonzero(self.word_starts.in_words(token_ids))
        if not len(places):
            return places
        starts = self.word_starts(token_ids).reshape(-1)[places]
        first = self.word_starts.segment_starts(token_ids).reshape(-1)[places]
        # Words: the index in `places` where each begins, and its number of tokens.
        begins = np.flatnonzero(starts)
        sizes = np.diff(begins, append=len(places))
        rows = places[begins] // width
        run_begins = self._cut_runs(first[begins], rows, draws)
        run_sizes = np.add.reduceat(sizes, run_begins)
        run_rows = rows[run_begins]
        in_row = np.bincount(places // width, minlength=num_rows)
        taken = self._take_runs(run_rows, run_sizes, in_row, slots, draws)
        # From runs to words, then to tokens.
        lengths = np.diff(run_begins, append=len(begins))
        words = np.repeat(taken == _WHOLE, lengths)
        first_only = run_begins[taken == _FIRST_WORD]
        words[first_only] = sizes[first_only] <= slots[run_rows[taken == _FIRST_WORD]]
        return places[np.repeat(words, sizes)]

    def _cut_runs(
        self, opens_segment: npt.NDArray[np.bool_], rows: Int64Array, draws: Draws
    ) -> Int64Array:
        """Split the words of each row into runs, none of which crosses segments."""
        lengths = np.searchsorted(self._ngram_steps, uniform(draws, rows)) + 1
        ends = np.cumsum(np.minimum(lengths, self.rates.max_ngram))
        # Each row has as many lengths as words, and does not use all of them.
        counts = np.bincount(rows)
        last = np.cumsum(counts)
        first = last - counts
        ends -= (np.append(0, ends)[first] - first)[rows]
        cuts = opens_segment.copy()
        cuts[first[counts > 0]] = True
        cuts[ends[ends < last[rows]]] = True
        return np.flatnonzero(cuts)

    def _take_runs(
        self,
        run_rows: Int64Array,
        run_sizes: Int64Array,
        in_row: Int64Array,
        slots: Int64Array,
        draws: Draws,
    ) -> npt.NDArray[np.int8]:
        """Select runs at random, up to the selection rate and the slots of a row."""
        # Shuffles the runs of each row, and keeps the order of the rows.
        order = np.argsort(run_rows + uniform(draws, run_rows), kind="stable")
        sizes, rows = run_sizes[order], run_rows[order]
        opening = np.flatnonzero(np.diff(rows, prepend=-1))
        begins = np.cumsum(sizes) - sizes
        begins -= np.repeat(begins[opening], np.diff(opening, append=len(rows)))
        # A row's runs form a circle, and those that begin within a window of random
        # position are selected: the probability does not depend on a run's size.
        turn = uniform(draws, np.arange(len(in_row))) * in_row
        distance = (begins - turn[rows]) % in_row[rows]
        window = np.minimum(self.rates.mask_selection_rate * in_row, slots)
        inside = np.flatnonzero(distance < window[rows])
        inside = inside[np.lexsort((distance[inside], rows[inside]))]
        # The last run may exceed its row's slots.
        total = np.cumsum(sizes[inside])
        places = np.searchsorted(rows[inside], rows[inside])
        before = np.concatenate([[0], total])[places]
        taken = np.full(len(rows), _NOT, np.int8)
        taken[inside[total - before <= slots[rows[inside]]]] = _WHOLE
        none = ~np.logical_or.reduceat(taken == _WHOLE, opening)
        taken[opening[none]] = _FIRST_WORD
        result = np.empty_like(taken)
        result[order] = taken
        return result


_LETTERS = re.compile(f"[{UNSPACED}]")

# Part of a word, as in don't and l'eau.
_APOSTROPHES = "'\u2019"


class WordStarts:
    """Finds the starts of words with lookup tables over the vocabulary."""

    # A piece begins a word if it begins with U+2581 or a segment, or if its first or
    # the previous character is punctuation (no apostrophe), a symbol or of a script
    # without spaces. A single U+2581 belongs to the next piece, a combining mark to the
    # previous one. In WordPiece, a piece without `##` begins a word, as in BERT.

    def __init__(self, tokenizer: Any) -> None:
        vocabulary = tokenizer.vocabulary
        texts = vocabulary.texts
        self._is_special = np.zeros(len(texts), bool)
        self._is_special[tokenizer.special_token_ids] = True
        self._opens = vocabulary.begins_word
        if vocabulary.marks_words:
            texts = [""] * len(texts)
        self._is_space = np.array([text == " " for text in texts])
        self._parts_before = np.array([_stands_alone(text[:1]) for text in texts])
        self._is_mark = np.array([_category(text[:1]) == "M" for text in texts])
        self._parts_after = np.array([_stands_alone(text[-1:]) for text in texts])

    def in_words(self, token_ids: IntArray) -> npt.NDArray[np.bool_]:
        """Return whether each token, int32 `(rows, length)`, belongs to a word."""
        return ~self._is_special[token_ids]

    def __call__(self, token_ids: IntArray) -> npt.NDArray[np.bool_]:
        """Find the first token of each word; no special token is one."""
        before = token_ids[:, :-1]
        starts: npt.NDArray[np.bool_] = self._opens[token_ids]
        parts = self._parts_before[token_ids[:, 1:]] | self._parts_after[before]
        joined = self._is_space[before] | self._is_mark[token_ids[:, 1:]]
        starts[:, 1:] |= parts & ~joined
        starts |= self.segment_starts(token_ids)
        return starts & self.in_words(token_ids)

    def segment_starts(self, token_ids: IntArray) -> npt.NDArray[np.bool_]:
        """Return whether a token is the first of a row or follows a special token."""
        first = np.ones(token_ids.shape, bool)
        first[:, 1:] = self._is_special[token_ids[:, :-1]]
        return first


def _stands_alone(character: str) -> bool:
    """Return whether a character is a separate word."""
    if character in _APOSTROPHES:
        return False
    category = _category(character)
    if category in ("L", "N"):
        return _LETTERS.match(character) is not None
    return category in ("P", "S")


def _category(character: str) -> str:
    """Return the first letter of a character's category: "L", "M", "N", ..."""
    return unicodedata.category(character)[0] if character else ""
