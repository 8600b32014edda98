"""Checks of arguments: unknown names and counts."""

import inspect
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from numbers import Integral
from typing import Any

# Arguments that KerasHub's tokenizers and preprocessors accept without naming them.
_UNNAMED = ("config_file", "_allow_python_workflow")


def refuse_unknown(
    cls: type,
    arguments: Mapping[str, Any],
    inherited: Collection[str] | None = None,
    hint: str | None = None,
) -> None:
    """Raise if a constructor received an unknown keyword argument.

    Args:
        cls: The class to be built.
        arguments: The arguments that its constructor does not name, `**kwargs`.
        inherited: Known names besides those of the constructor of `cls`. Defaults to
            `None`: the names in the constructors of its bases.
        hint: string or `None`. The remedy if no known name is similar. Defaults to
            `None`, which lists the arguments.

    Raises:
        TypeError: If an argument is unknown; the message suggests the most similar
            known name.

    Example:
        >>> class Model:
        ...     def __init__(self, num_layers, **kwargs):
        ...         refuse_unknown(type(self), kwargs)
        >>> Model(num_layers=2, num_layer=7)
        Traceback (most recent call last):
            ...
        TypeError: Model has no argument `num_layer`. Did you mean `num_layers`?
    """
    constructors = [cls] if inherited is not None else list(cls.__mro__)
    known = set(_UNNAMED if inherited is None else inherited)
    for each in constructors:
        known |= _named(each.__init__)  # type: ignore[misc]
    unknown = sorted(set(arguments) - known)
    if not unknown:
        return
    names = ", ".join(f"`{name}`" for name in unknown)
    nearest = [
        f"`{match}`"
        for name in unknown
        for match in get_close_matches(name, sorted(known), n=1)
    ]
    if nearest:
        hint = f"Did you mean {', '.join(nearest)}?"
    elif hint is None:
        own = sorted(_named(cls.__init__))  # type: ignore[misc]
        hint = f"Its own are: {', '.join(own)}."
    raise TypeError(f"{cls.__name__} has no argument {names}. {hint}")


def _named(constructor: Any) -> set[str]:
    parameters = inspect.signature(constructor).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {each.name for each in parameters if each.kind in kinds} - {"self"}


def check_positive(**numbers: object) -> None:
    """Check that arguments are positive integers.

    Args:
        **numbers: The arguments by name.

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
