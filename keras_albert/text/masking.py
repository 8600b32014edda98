"""Masks of words for masked language models, by random numbers of each row."""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_albert.text.packing import EncodedTexts, TokenRows, ragged_range
from keras_albert.text.tokenizer.text_rules import UNSPACED
from keras_albert.text.tokenizer.vocabularies import Vocabulary
from keras_albert.types import Batch, FloatArray, Int64Array, IntArray
from keras_albert.utils.arguments import check_at_most, check_positive, check_rates

UInt64Array: TypeAlias = npt.NDArray[np.uint64]

# SplitMix64, from Steele et al., 2014, "Fast splittable pseudorandom number
# generators", and the rounds of a Feistel network.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_ROUNDS = 8


def _mix(values: UInt64Array) -> UInt64Array:
    mixed = values ^ (values >> np.uint64(30))
    mixed *= _FACTORS[0]
    mixed ^= mixed >> np.uint64(27)
    mixed *= _FACTORS[1]
    mixed ^= mixed >> np.uint64(31)
    return mixed


def hashed(*numbers: Any) -> UInt64Array:
    """Return 64 random bits for each tuple of numbers; ints and arrays broadcast."""
    found = np.zeros(1, np.uint64)
    for number in numbers:
        if isinstance(number, int):
            number %= 2**64  # noqa: PLW2901
        found = _mix(found ^ (np.atleast_1d(number).astype(np.uint64) + _STEP))
    return found


def permute(places: Int64Array, count: int, *key: int) -> Int64Array:
    """Return the numbers at some places of a random order of `range(count)`."""
    # A Feistel network permutes the numbers below a power of two, and is repeated for
    # results that are too large, as in Grain's `index_shuffle`. Source: Black and
    # Rogaway, 2002, "Ciphers with arbitrary finite domains".
    bits = max(1, (count - 1).bit_length())
    keys = hashed(*key, np.arange(_ROUNDS))
    found = _feistel(places.astype(np.uint64), bits, keys)
    while len(outside := np.flatnonzero(found >= count)):
        found[outside] = _feistel(found[outside], bits, keys)
    return found.astype(np.int64)


def _feistel(values: UInt64Array, bits: int, keys: UInt64Array) -> UInt64Array:
    low_bits = np.uint64(bits // 2)
    low_mask = np.uint64(2 ** (bits // 2) - 1)
    high_mask = np.uint64(2 ** (bits - bits // 2) - 1)
    high, low = values >> low_bits, values & low_mask
    for even, odd in keys.reshape(-1, 2):
        high = high ^ (_mix(low + even) & high_mask)
        low = low ^ (_mix(high + odd) & low_mask)
    return (high << low_bits) | low


def number_in_row(rows: Int64Array) -> Int64Array:
    """Number entries within their rows: `[3, 3, 5]` becomes `[0, 1, 0]`."""
    counts = np.bincount(rows)
    return np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]


class RowDraws:
    """Random numbers of the rows of a batch, each by the row's key alone."""

    def __init__(self, *key: Any) -> None:
        self._keys = hashed(*key)
        self._calls = 0

    def bits(self, rows: Int64Array) -> UInt64Array:
        """Draw 64 bits for each entry of `rows`, the entry's row, which increases."""
        self._calls += 1
        counts = np.bincount(rows, minlength=len(self._keys))
        first = (np.cumsum(counts) - counts).astype(np.uint64)
        # Entry i of a row is i steps from the row's key, and calls are far apart.
        start = self._keys + (np.uint64(self._calls << 32) - first) * _STEP
        return _mix(start[rows] + np.arange(len(rows), dtype=np.uint64) * _STEP)

    def random(self, rows: Int64Array) -> npt.NDArray[np.float64]:
        """Draw a number from 0 to below 1 for each entry; see `bits`."""
        # With 32 bits, its sum with the number of a row is exact.
        return (self.bits(rows) >> np.uint64(32)).astype(np.float64) * 2.0**-32


class RowSeeds:
    """The draws of rows: by the key of each, and new ones at each visit or epoch."""

    def __init__(
        self, keys: UInt64Array, epoch: int | None = None, are_fixed: bool = False
    ) -> None:
        self._keys = keys
        self._visits = np.full(len(keys), epoch or 0, np.int64)
        self._counts_visits = epoch is None and not are_fixed
        self._are_fixed = are_fixed

    def draws(self, rows: Int64Array) -> RowDraws:
        """Return the draws of some rows, and count the visit."""
        draws = RowDraws(self._keys[rows], self._visits[rows])
        if self._counts_visits:
            self._visits[rows] += 1
        return draws

    def of_epoch(self, epoch: int) -> Self:
        """Return the seeds of one epoch; those that are fixed do not differ."""
        return self if self._are_fixed else type(self)(self._keys, epoch)


Draws: TypeAlias = np.random.Generator | RowDraws


def uniform(draws: Draws, rows: Int64Array) -> npt.NDArray[np.float64]:
    """Draw a number from 0 to below 1 for each entry of `rows`; see `RowDraws.bits`."""
    if isinstance(draws, RowDraws):
        return draws.random(rows)
    return draws.random(len(rows))


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

    def __init__(
        self, vocabulary: Vocabulary, rates: MaskingRates | None = None
    ) -> None:
        self.rates = rates or MaskingRates()
        self.word_starts = WordStarts(vocabulary)
        self.mask_token_id = vocabulary.special_ids["mask_token"]
        self.pad_token_id = vocabulary.special_ids["pad_token"]
        self._drawable: IntArray = vocabulary.text_ids
        if not len(self._drawable):
            raise ValueError(
                f"All {len(vocabulary.pieces)} pieces of the vocabulary are special, "
                "so there is none to replace a token by. Train one with "
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
        # Words: the index in `places` where each starts, and its number of tokens.
        firsts = np.flatnonzero(starts)
        sizes = np.diff(firsts, append=len(places))
        rows = places[firsts] // width
        run_starts = self._cut_runs(first[firsts], rows, draws)
        run_sizes = np.add.reduceat(sizes, run_starts)
        run_rows = rows[run_starts]
        in_row = np.bincount(places // width, minlength=num_rows)
        taken = self._take_runs(run_rows, run_sizes, in_row, slots, draws)
        # From runs to words, then to tokens.
        lengths = np.diff(run_starts, append=len(firsts))
        words = np.repeat(taken == _WHOLE, lengths)
        first_only = run_starts[taken == _FIRST_WORD]
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
        starts = np.cumsum(sizes) - sizes
        starts -= np.repeat(starts[opening], np.diff(opening, append=len(rows)))
        # A row's runs form a circle, and those that start within a window of random
        # position are selected: the probability does not depend on a run's size.
        turn = uniform(draws, np.arange(len(in_row))) * in_row
        distance = (starts - turn[rows]) % in_row[rows]
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

    # A piece starts a word if it starts with U+2581 or a segment, or if its first or
    # the previous character is punctuation (no apostrophe), a symbol or of a script
    # without spaces. A single U+2581 belongs to the next piece, a combining mark to the
    # previous one. In WordPiece, a piece without `##` starts a word, as in BERT.

    def __init__(self, vocabulary: Vocabulary) -> None:
        texts = vocabulary.texts
        self._is_special = np.zeros(len(texts), bool)
        self._is_special[list(vocabulary.special_ids.values())] = True
        self._opens = vocabulary.starts_word
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


def text_keys(seed: int, columns: tuple[TokenRows, ...]) -> UInt64Array:
    """Return a key for each row, by the seed and the row's tokens alone."""
    numbers: list[Any] = []
    for column in columns:
        places = ragged_range(np.zeros_like(column.lengths), column.lengths)
        sums = np.append(np.uint64(0), np.cumsum(hashed(column.values, places)))
        starts = column.starts
        numbers += [column.lengths, sums[starts + column.lengths] - sums[starts]]
    return hashed(seed, *numbers)


@dataclass
class MaskedTexts:
    """Texts that are masked when they are packed; see `Examples`."""

    texts: EncodedTexts
    masking: WholeWordMasking
    seeds: RowSeeds
    sample_weight: FloatArray | None = None
    lengths: Int64Array = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = self.texts.lengths

    def __len__(self) -> int:
        return len(self.texts)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack and mask some rows; see `Examples`."""
        packed = self.texts.pack(rows, length)
        masked = self.masking(packed["token_ids"], self.seeds.draws(rows))
        x = packed | {"token_ids": masked.token_ids, "mask_positions": masked.positions}
        weights = masked.weights
        if self.sample_weight is not None:
            weights = weights * self.sample_weight[rows, None]
        return x, masked.labels, weights


class MaskedPairs(NamedTuple):
    """A batch of masked pairs; `changed` is 1 for a changed pair."""

    x: dict[str, IntArray]
    labels: IntArray
    weights: FloatArray
    changed: IntArray


def draw_pairs(
    pairs: EncodedTexts,
    changed_pairs: EncodedTexts,
    masking: WholeWordMasking,
    draws: Draws,
    rows: Int64Array,
    length: int,
) -> MaskedPairs:
    """Pack some pairs, change each with probability 0.5, and mask them."""
    changed = uniform(draws, np.arange(len(rows))) < 0.5
    x: dict[str, IntArray] = {}
    for texts, here in ((pairs, ~changed), (changed_pairs, changed)):
        for name, packed in texts.pack(rows[here], length).items():
            x.setdefault(name, np.empty((len(rows), length), np.int32))[here] = packed
    masked = masking(x["token_ids"], draws)
    x |= {"token_ids": masked.token_ids, "mask_positions": masked.positions}
    return MaskedPairs(x, masked.labels, masked.weights, changed.astype(np.int32))


@dataclass
class SegmentPairs(MaskedTexts):
    """Pairs that are swapped with probability 0.5, and masked, when they are packed."""

    swapped: EncodedTexts = field(kw_only=True)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack, swap and mask some pairs; see `Examples`."""
        draws = self.seeds.draws(rows)
        drawn = draw_pairs(self.texts, self.swapped, self.masking, draws, rows, length)
        y = {"masked_lm": drawn.labels, "sentence_order": drawn.changed}
        weight = np.ones(len(rows), np.float32)
        if self.sample_weight is not None:
            weight = self.sample_weight[rows]
        weights = {
            "masked_lm": drawn.weights * weight[:, None],
            "sentence_order": weight,
        }
        return drawn.x, y, weights


class WrittenMasks:
    """Texts that contain mask tokens to fill; see `Examples`."""

    def __init__(self, texts: EncodedTexts, mask_token_id: int) -> None:
        self.texts = texts
        self.lengths = texts.lengths
        self.mask_token_id = mask_token_id
        # The number of masks in each row before truncation.
        self.written = np.zeros(len(texts), np.int64)
        for column in texts.columns:
            row = np.repeat(np.arange(len(texts)), column.lengths)
            masks = row[column.values == mask_token_id]
            self.written += np.bincount(masks, minlength=len(texts))
        # The same for all batches, so that outputs do not depend on the batch; a power
        # of two, since the model is compiled for each number.
        most = int(self.written.max(initial=1))
        self.slots = 1 << (max(most, 1) - 1).bit_length()

    def __len__(self) -> int:
        return len(self.texts)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows and their mask positions, 0 in unused slots."""
        x: dict[str, Any] = self.texts.pack(rows, length)
        row, place = np.nonzero(x["token_ids"] == self.mask_token_id)
        positions = np.zeros((len(rows), self.slots), np.int32)
        positions[row, number_in_row(row)] = place
        return (x | {"mask_positions": positions},)


def tokenize_masks(
    vocabulary: Vocabulary, texts: Sequence[str], length: int | None = None
) -> TokenRows:
    """Tokenize texts with masks; "[MASK]." is `[MASK]` and ".", as "word." is."""
    mask = vocabulary.special_tokens["mask_token"]
    parts = [text.split(mask) for text in texts]
    # All parts of all texts in one multithreaded call.
    flat = [part for row in parts for part in row]
    tokens = vocabulary.encode(flat)
    mask_id = np.array([vocabulary.special_ids["mask_token"]], np.int32)
    found = iter(tokens)
    rows = []
    for row in parts:
        ids = [next(found)]
        for part in row[1:]:
            ids += [mask_id, _without_space(vocabulary, part, next(found))]
        rows.append(np.concatenate(ids))
    return TokenRows.from_arrays([row[:length] for row in rows])


def _without_space(vocabulary: Vocabulary, text: str, ids: IntArray) -> IntArray:
    """Remove the space before a text, unless it starts with one."""
    if not len(ids) or text[0].isspace():
        return ids
    inner = vocabulary.inner_ids[ids[:1]]
    return np.concatenate([inner[inner >= 0], ids[1:]])
