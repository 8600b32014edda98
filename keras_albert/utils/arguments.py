"""Checks of arguments: unknown names, types and ranges."""

import inspect
import warnings
from collections.abc import Collection, Mapping
from dataclasses import fields
from difflib import get_close_matches
from functools import cache
from math import inf
from numbers import Integral, Real
from types import UnionType
from typing import Any, TypeGuard, get_args, get_origin, get_type_hints

# What KerasHub's tokenizers and preprocessors accept without naming it.
_UNNAMED = ("config_file",)

# More than any model has. Layers share their weights, so that no file bounds their
# number; a preprocessor alone has no file that bounds its rows.
MAX_LAYERS = 1000
MAX_TOKENS = 2**16


class MissingArgumentError(ValueError):
    """An argument is missing that a preset does not determine; its files are intact."""


class ArgumentError(ValueError):
    """An argument has a wrong value; its name is `argument`."""

    # The command line names the option by it.
    argument: str


def argument_error(argument: str, message: str) -> ArgumentError:
    """Return an error with the name of the argument that is wrong."""
    error = ArgumentError(message)
    error.argument = argument
    return error


def check_kwargs(
    cls: type,
    arguments: Mapping[str, Any],
    inherited: Collection[str] | None = None,
    hint: str | None = None,
) -> None:
    """Raise if a constructor received an unknown keyword argument."""
    # `inherited` are further known names, by default of its bases; `hint`
    # replaces the list if no name is similar.
    constructors = [cls] if inherited is not None else list(cls.__mro__)
    known = set(_UNNAMED if inherited is None else inherited)
    for each in constructors:
        known |= _named(each.__init__)  # type: ignore[misc]
    if unknown := sorted(set(arguments) - known):
        own = sorted(_named(cls.__init__))  # type: ignore[misc]
        hint = hint or f"Its arguments are: {', '.join(own)}."
        raise _unknown(cls.__name__, unknown, known, hint)


def check_options(
    cls: type, method: str, options: Mapping[str, Any], others: Collection[str] = ()
) -> None:
    """Check `**kwargs` of a method: names that no base has, and callbacks."""
    known = _known_options(cls, method).union(others)
    if unknown := sorted(set(options) - known):
        hint = f"Its arguments are: {', '.join(sorted(known))}."
        raise _unknown(f"`{method}`", unknown, known, hint)
    _check_callbacks(options.get("callbacks"))


def _check_callbacks(callbacks: Any) -> None:
    if isinstance(callbacks, list | tuple):
        for each in callbacks:
            _check_callbacks(each)
    elif isinstance(callbacks, type) or not (
        callbacks is None or hasattr(callbacks, "set_model")
    ):
        raise TypeError(
            "`callbacks` must be a list of instances of `keras.callbacks.Callback`. "
            f"Received: {callbacks!r}"
        )


@cache
def _known_options(cls: type, method: str) -> frozenset[str]:
    methods = (vars(base)[method] for base in cls.__mro__ if method in vars(base))
    return frozenset().union(*map(_named, methods))


def _unknown(
    what: str, unknown: list[str], known: Collection[str], hint: str
) -> TypeError:
    names = ", ".join(f"`{name}`" for name in unknown)
    close = (get_close_matches(name, sorted(known), n=1) for name in unknown)
    nearest = [f"`{match}`" for matches in close for match in matches]
    if nearest:
        hint = f"Did you mean {', '.join(nearest)}?"
    return TypeError(f"{what} has no argument {names}. {hint}")


def _named(function: Any) -> set[str]:
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {each.name for each in parameters if each.kind in kinds} - {"self"}


def check_positive(**numbers: object) -> None:
    """Check that arguments are positive integers."""
    check_at_least(1, **numbers)


def check_at_least(minimum: int, /, **numbers: object) -> None:
    """Check that arguments are integers, and not too small."""
    for name, number in numbers.items():
        if not is_whole_number(number) or number < minimum:
            raise argument_error(
                name,
                f"`{name}` must be a whole number, at least {minimum}. Received: "
                f"{name}={number!r}",
            )


def check_at_most(maximum: int, /, **numbers: int) -> None:
    """Check numbers that size memory, before anything is built."""
    for name, number in numbers.items():
        if number > maximum:
            msg = f"`{name}` must be at most {maximum}. Received: {name}={number!r}"
            raise argument_error(name, msg)


def check_choice(choices: Collection[object], /, **arguments: object) -> None:
    """Check that arguments are among the values that they may have."""
    for name, value in arguments.items():
        if not any(value is each or value == each for each in choices):
            near = get_close_matches(str(value), [str(each) for each in choices], n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise argument_error(
                name,
                f"`{name}` must be one of {', '.join(map(repr, choices))}. Received: "
                f"{name}={value!r:.80}.{hint}",
            )


def check_shape(array: Any, axes: str, kinds: str, name: str) -> None:
    """Check that an array has axes such as "examples, tokens" and a kind of dtype."""
    # `kinds` are those of NumPy, such as "iu" for integers.
    if array.ndim != len(axes.split(", ")) or array.dtype.kind not in kinds:
        words = {"i": "integers", "u": "integers", "f": "floats", "b": "bools"}
        of = " or ".join(dict.fromkeys(words.get(kind, kind) for kind in kinds))
        raise ValueError(
            f"`{name}` must be an array of {of}, of shape ({axes}). Received: "
            f"{array.dtype} {array.shape}"
        )


def check_unused(by: str, /, **arguments: object) -> None:
    """Check that arguments are `None` that another one rules out."""
    if given := [name for name, value in arguments.items() if value is not None]:
        raise ValueError(f"Leave out {', '.join(map(repr, given))} with `{by}`.")


def check_depth(num_layers: Any, num_groups: int) -> None:
    """Check a number of layers to run."""
    check_positive(num_layers=num_layers)
    check_at_most(MAX_LAYERS, num_layers=num_layers)
    if num_layers < num_groups:
        raise ValueError(
            "`num_layers` must be at least `num_groups`, or some groups would never "
            f"run. Received: num_layers={num_layers}, num_groups={num_groups}"
        )


def is_whole_number(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer and not a bool."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def warn_of_depth(num_layers: object, trained: int) -> None:
    """Warn if a model is to run more layers than it was trained with."""
    if is_whole_number(num_layers) and num_layers > trained:
        warnings.warn(
            f"The model was trained with {trained} layers and will run {num_layers}. "
            "Each additional layer lowers the quality: with 6 layers instead of 4, the "
            "built-in tiny model finds a third fewer of the masked words, and with 12 "
            "hardly any. Train it at this depth.",
            stacklevel=2,
        )


def check_rates(**rates: object) -> None:
    """Check that rates, such as of dropout, and epsilons are from 0 to 1."""
    for name, rate in rates.items():
        # False for NaN.
        if not (_is_number(rate) and 0 <= rate <= 1):  # type: ignore[operator]
            msg = f"`{name}` must be a number from 0 to 1. Received: {name}={rate!r}"
            raise argument_error(name, msg)


def check_finite_and_positive(**numbers: object) -> None:
    """Check that arguments are numbers above 0."""
    for name, number in numbers.items():
        if not (_is_number(number) and 0 < number < inf):  # type: ignore[operator]
            raise argument_error(
                name,
                f"`{name}` must be a finite number above 0. Received: "
                f"{name}={number!r}",
            )


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_types(settings: Any) -> None:
    """Check the types of settings, and convert an int where a float is declared."""
    declared = get_type_hints(type(settings))
    for each in fields(settings):
        hint = declared[each.name]
        parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        allowed = [get_origin(part) or part for part in parts]
        value = getattr(settings, each.name)
        if type(value) is int and float in allowed and int not in allowed:
            object.__setattr__(settings, each.name, float(value))
        # Other types must match exactly, as True is an instance of int.
        elif type(value) not in allowed and not (
            Mapping in allowed and isinstance(value, Mapping)
        ):
            names = " or ".join(kind.__name__ for kind in allowed)
            msg = (
                f"`{each.name}` must be {names}. Received: {each.name}={value!r}, "
                f"{type(value).__name__}"
            )
            raise TypeError(msg.replace("NoneType", "None"))
