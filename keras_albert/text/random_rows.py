"""Random numbers and orders by index: the same whatever else a process draws."""

from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_albert.types import Int64Array

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
