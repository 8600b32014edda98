"""Arguments that count something."""

from numbers import Integral


def check_positive(**numbers: object) -> None:
    """See that arguments are whole numbers from 1 on.

    Args:
        **numbers: The arguments by their names.

    Raises:
        ValueError: If one is not; the message names it.

    Example:
        >>> check_positive(top_k=5)
        >>> check_positive(top_k="5")
        Traceback (most recent call last):
            ...
        ValueError: `top_k` must be a whole number, at least 1. Received: top_k='5'
    """
    for name, number in numbers.items():
        is_whole = isinstance(number, Integral) and not isinstance(number, bool)
        if not is_whole or number < 1:  # type: ignore[operator]
            msg = (
                f"`{name}` must be a whole number, at least 1. Received: "
                f"{name}={number!r}"
            )
            raise ValueError(msg)
