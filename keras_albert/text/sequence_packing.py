"""Sequence packing: texts of a batch share rows, so that all batches have one shape."""

import math

import numpy as np
import numpy.typing as npt

from keras_albert.types import Int64Array, IntArray

# Batches by which the shape of rows is chosen, the share of places that it leaves for
# others, and how many times as long as the longest text a row may be.
SAMPLE = 128


_LEFT = 0.02


_WIDEST = 4


# How often a batch is tried before it gets more rows.
_ATTEMPTS = 32


# Pairs of batches swap texts this often at most, or until no batch has more tokens than
# the mean by this share; of a batch, this many texts are tried.
_ROUNDS = 32


_UNEVEN = 0.005


_TRIED = 32


# The work of the products with weights, for each unit of the encoder's width, in that
# of attending to one token.
_PER_WEIGHT = 6


def plan_packed_batches(
    sizes: Int64Array, batch_size: int, generator: np.random.Generator | None = None
) -> list[Int64Array]:
    """Group examples into random batches with nearly the same number of tokens."""
    # Batches swap examples, the one with most tokens with the one with fewest and so
    # on. Only the last batch may be smaller than `batch_size`.
    if generator is None:
        generator = np.random.default_rng(0)
    order = generator.permutation(len(sizes))
    full = len(sizes) // batch_size
    rest, order = np.split(order, [len(sizes) - full * batch_size])
    # A batch has one of each group of similar size.
    groups = order[np.argsort(-sizes[order], kind="stable")].reshape(batch_size, full)
    batches = np.ascontiguousarray(generator.permuted(groups, axis=1).T)
    pairs = full // 2
    for _ in range(_ROUNDS):
        totals = sizes[batches].sum(axis=1)
        if totals.max(initial=0) <= totals.sum() / max(1, full) * (1 + _UNEVEN):
            break
        by_total = np.argsort(totals, kind="stable")
        few, many = by_total[:pairs], by_total[::-1][:pairs]
        gap = (totals[many] - totals[few])[:, None, None]
        # Texts that differ by half of the gap close it.
        given, taken = sizes[batches[many, :_TRIED]], sizes[batches[few]]
        left = np.abs(gap - 2 * (given[:, :, None] - taken[:, None, :]))
        best = left.reshape(pairs, -1).argmin(axis=1)
        closes = left.reshape(pairs, -1)[np.arange(pairs), best] < gap[:, 0, 0]
        if not closes.any():
            break
        few, many, best = few[closes], many[closes], best[closes]
        of_many, of_few = np.divmod(best, batch_size)
        given, taken = batches[many, of_many], batches[few, of_few]
        batches[many, of_many], batches[few, of_few] = taken, given
        # Others are tried in the next round.
        batches = np.roll(batches, _TRIED, axis=1)
    return [*batches, rest] if len(rest) else list(batches)


def place_texts(
    lengths: Int64Array, width: int, rows: int, attempts: int = 1
) -> tuple[Int64Array, Int64Array] | None:
    """Place texts of batches in rows, the longest first; `None` if one does not fit."""
    row, start = np.zeros_like(lengths), np.zeros_like(lengths)
    left = np.arange(len(lengths))
    generator = np.random.default_rng(0)
    for attempt in range(attempts):
        tried = lengths[left]
        about = tried * generator.uniform(1, 1.5, tried.shape) if attempt else tried
        order = np.argsort(-about, axis=1, kind="stable")
        *places, fits = _place_in_order(tried, order, width, rows)
        row[left[fits]], start[left[fits]] = (place[fits] for place in places)
        left = left[~fits]
        if not len(left):
            return row, start
    return None


def _place_in_order(
    lengths: Int64Array, order: Int64Array, width: int, rows: int
) -> tuple[Int64Array, Int64Array, npt.NDArray[np.bool_]]:
    """Return rows and first tokens of texts, and which batches fit."""
    batches = np.arange(len(lengths))
    fits = np.ones(len(lengths), bool)
    free = np.full((len(lengths), rows), width, np.int64)
    row, start = np.empty_like(lengths), np.empty_like(lengths)
    for text in order.T:
        length = lengths[batches, text]
        left = free - length[:, None]
        best = np.where(left < 0, width + 1, left).argmin(axis=1)
        fits &= left[batches, best] >= 0
        row[batches, text] = best
        start[batches, text] = width - free[batches, best]
        free[batches, best] -= length
    return row, start, fits


class PackedShape:
    """The shape of rows that texts share; rows are added if texts do not fit."""

    def __init__(self, hidden_dim: int) -> None:
        self.hidden_dim = hidden_dim
        self.width = 0
        # By the number of texts in a batch.
        self.rows: dict[int, int] = {}

    def choose(self, lengths: Int64Array, longest: int) -> None:
        """Choose the shape by `lengths` `(batches, texts)` of some batches."""
        self.width = self._best_width(lengths[:SAMPLE], longest)
        self.rows = {lengths.shape[1]: _fitting_rows(lengths, self.width)}

    def place(self, lengths: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Place the texts of batches; see `place_texts`."""
        longest = int(lengths.max(initial=1))
        if self.width < longest:
            self.choose(lengths, longest)
        texts = lengths.shape[1]
        rows = self.rows.get(texts) or _fitting_rows(lengths, self.width)
        while (places := place_texts(lengths, self.width, rows, _ATTEMPTS)) is None:
            rows += 1
        self.rows[texts] = rows
        return places

    def _best_width(self, lengths: Int64Array, longest: int) -> int:
        """Return the width for which the rows of a batch need the least work."""
        step = max(8, longest // 64 * 8)

        def work(width: int) -> int:
            rows = _fitting_rows(lengths, width)
            return rows * width * (_PER_WEIGHT * self.hidden_dim + width)

        first = -(-longest // 8) * 8
        return min(range(first, _WIDEST * first + 1, step), key=work)


def _fitting_rows(lengths: Int64Array, width: int) -> int:
    """Return the number of rows that the texts of each of some batches fit in."""
    most = float(lengths.sum(axis=1).max(initial=1))
    # Each text fits in its own row.
    fewest = math.ceil(most * (1 + _LEFT) / width)
    rows = max(1, min(fewest, int(lengths.shape[1])))
    while place_texts(lengths, width, rows) is None:
        rows += 1
    return rows


def packed_inputs(
    row: Int64Array, start: Int64Array, mask: IntArray, width: int, rows: int
) -> tuple[IntArray, IntArray]:
    """Return `row_tokens` and `token_places` of one batch, see `PackedRows`."""
    is_token = mask > 0
    places = (row * width + start)[:, None] + np.arange(mask.shape[1])
    tokens = np.full(rows * width, -1, np.int32)
    tokens[places[is_token]] = np.flatnonzero(is_token)
    return tokens.reshape(rows, width), np.where(is_token, places, 0).astype(np.int32)
