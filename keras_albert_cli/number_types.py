"""Types of numbers on the command line, which `argparse` checks."""

import argparse
import math
from collections.abc import Callable

# Far above what fits into memory, and small enough for the arrays of every library.
_MAX_NUMBER = 10**9


def whole_number(least: int = 1, most: int = _MAX_NUMBER) -> Callable[[str], int]:
    """Return an `argparse` type for integers within bounds."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            bounds = f"from {least} to {most:,}"
            msg = f"must be a whole number, {bounds}. Received: {_cut(text)}"
            raise argparse.ArgumentTypeError(msg)
        return number

    return read


def fraction(text: str) -> float:
    """Read a number in [0, 1), as an `argparse` type."""
    return _real(text, "from 0 to below 1", lambda number: 0 <= number < 1)


def probability(text: str) -> float:
    """Read a number in (0, 1), as an `argparse` type."""
    return _real(text, "above 0 and below 1", lambda number: 0 < number < 1)


def positive_number(text: str) -> float:
    """Read a positive number, as an `argparse` type."""
    return _real(text, "above 0", lambda number: 0 < number < math.inf)


def _real(text: str, bounds: str, fits: Callable[[float], bool]) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not fits(number):
        msg = f"must be a number {bounds}. Received: {_cut(text)}"
        raise argparse.ArgumentTypeError(msg)
    return number


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text):,} characters)"


# The range that NumPy and Keras accept.
SEED = whole_number(0, 2**32 - 1)

# Layers share their weights, so that only time limits their number.
LAYERS = whole_number(most=1000)
# The position embeddings of a small model then take 16 MB.
TOKENS = whole_number(most=2**16)
BATCH_SIZE = whole_number(most=2**20)
