"""Checks of rates and epsilons."""

import math
from numbers import Real


def check_rates(**rates: object) -> None:
    """Check that dropout rates are fractions.

    Args:
        **rates: The arguments by name.

    Raises:
        ValueError: If one is not a number from 0 to 1; the message names it.

    Example:
        >>> check_rates(dropout=0.1)
        >>> check_rates(dropout=-0.1)
        Traceback (most recent call last):
            ...
        ValueError: `dropout` must be a number from 0 to 1. Received: dropout=-0.1
    """
    for name, rate in rates.items():
        # False for NaN.
        if not (_is_number(rate) and 0 <= rate <= 1):  # type: ignore[operator]
            msg = f"`{name}` must be a number from 0 to 1. Received: {name}={rate!r}"
            raise ValueError(msg)


def check_epsilon(layer_norm_epsilon: object) -> None:
    """Check that an epsilon is finite and not negative.

    Args:
        layer_norm_epsilon: The argument.

    Raises:
        ValueError: If it is infinite, negative or not a number.
    """
    is_number = _is_number(layer_norm_epsilon)
    if not (is_number and 0 <= layer_norm_epsilon < math.inf):  # type: ignore[operator]
        msg = (
            "`layer_norm_epsilon` must be a finite number, not below 0. Received: "
            f"layer_norm_epsilon={layer_norm_epsilon!r}"
        )
        raise ValueError(msg)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
