"""Types of numbers on the command line, which `argparse` checks."""

import argparse
import math
from collections.abc import Callable


def whole_number(least: int = 1, most: int | None = None) -> Callable[[str], int]:
    """Return an `argparse` type for integers within bounds.

    Returns:
        Callable of a string, which raises `argparse.ArgumentTypeError`.

    Example:
        >>> whole_number()("32")
        32
        >>> whole_number()("-1")
        Traceback (most recent call last):
            ...
        argparse.ArgumentTypeError: must be a whole number, at least 1. Received: -1
    """
    bounds = f"at least {least}" if most is None else f"from {least} to {most:,}"

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            msg = f"must be a whole number, {bounds}. Received: {text}"
            raise argparse.ArgumentTypeError(msg)
        return number

    return read


def fraction(text: str) -> float:
    """Read a number in [0, 1), as an `argparse` type.

    Raises:
        argparse.ArgumentTypeError: If it is not such a number.

    Example:
        >>> fraction("0.1")
        0.1
    """
    return _real(text, "from 0 to below 1", lambda number: 0 <= number < 1)


def positive_number(text: str) -> float:
    """Read a positive number, as an `argparse` type.

    Raises:
        argparse.ArgumentTypeError: If it is not such a number.

    Example:
        >>> positive_number("3e-5")
        3e-05
    """
    return _real(text, "above 0", lambda number: 0 < number < math.inf)


def _real(text: str, bounds: str, fits: Callable[[float], bool]) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not fits(number):
        msg = f"must be a number {bounds}. Received: {text}"
        raise argparse.ArgumentTypeError(msg)
    return number


# The range that NumPy and Keras accept.
SEED = whole_number(0, 2**32 - 1)
