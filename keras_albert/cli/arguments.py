"""Options of the command line: fields of dataclasses, explained by their docstrings.

The type of a field says what its option takes, and the docstring of the class is the
help: its first line and its text describe the command, and each section with fields is
a group of options. `argument` and `option` say the rest.
"""

import argparse
import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from pathlib import Path
from pkgutil import resolve_name
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin
from typing import get_type_hints as hints_of

# Far above what fits into memory, and small enough for the arrays of every library.
_MAX_NUMBER = 10**9


class Kind(NamedTuple):
    """How an option is read, and what a path must be."""

    read: Callable[[str], Any]
    path: Literal["", "file", "directory", "new"] = ""


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


def real_number(low: float, high: float, bounds: str) -> Callable[[str], float]:
    """Return an `argparse` type for numbers above a bound and below another."""

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not low < number < high:
            msg = f"must be a number {bounds}. Received: {_cut(text)}"
            raise argparse.ArgumentTypeError(msg)
        return number

    return read


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text):,} characters)"


def whole(least: int = 1, most: int = _MAX_NUMBER) -> Kind:
    """Return the kind of an integer within bounds."""
    return Kind(whole_number(least, most))


# The range that NumPy and Keras accept.
SEED = whole_number(0, 2**32 - 1)
fraction = real_number(-math.ulp(0), 1, "from 0 to below 1")
positive_number = real_number(0, math.inf, "above 0")

Count = Annotated[int, whole()]
Seed = Annotated[int, Kind(SEED)]
# Layers share their weights, so that only time limits their number.
Layers = Annotated[int, whole(most=1000)]
# The position embeddings of a small model then take 16 MB.
Tokens = Annotated[int, whole(most=2**16)]
BatchSize = Annotated[int, whole(most=2**20)]
Fraction = Annotated[float, Kind(fraction)]
Positive = Annotated[float, Kind(positive_number)]
# The checks before a backend is imported.
File = Annotated[Path, Kind(Path, "file")]
Directory = Annotated[Path, Kind(Path, "directory")]
NewPath = Annotated[Path, Kind(Path, "new")]

# The kinds of plain types.
_KINDS = {
    str: Kind(str),
    Path: Kind(Path),
    int: whole(0, 2**31 - 1),
    float: Kind(float),
    bool: Kind(bool),
}


def argument(**options: Any) -> Any:
    """Declare a positional argument; `options` are those of `add_argument`."""
    return field(metadata={"positional": True, "options": options})


def option(
    default: Any = None, *names: str, one_of: bool = False, **options: Any
) -> Any:
    """Declare an option, with further names and options of `add_argument`."""
    # One of the options with `one_of` is required, and excludes the others.
    metadata = {"names": names, "one_of": one_of, "options": options}
    return field(default=default, metadata=metadata)


def settings_of(place: str) -> Any:
    """Declare the fields of another dataclass, "module:class", as options."""
    # Given ones are collected under the name of the field.
    return field(default_factory=dict, metadata={"settings_of": place})


class Described(NamedTuple):
    """The docstring of a class, in parts."""

    summary: str
    text: str
    # From the title of a section to the help of each field.
    sections: dict[str, dict[str, str]]
    example: str


def describe(cls: type) -> Described:
    """Read the docstring of a class, with the sections of its bases."""
    head, *rest = _sections(cls)
    sections: dict[str, dict[str, str]] = {}
    example = ""
    for title, body in [*rest, *(s for b in cls.__mro__[1:] for s in _sections(b)[1:])]:
        if title == "Example":
            example = example or body
            continue
        found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", body, re.MULTILINE)
        known = sections.setdefault(title, {})
        known |= {name: " ".join(help_.split()) for name, help_ in found}
    return Described(head[1].splitlines()[0].rstrip("."), head[1], sections, example)


def _sections(cls: type) -> list[tuple[str, str]]:
    """Return what stands before the first section, and the titles and sections."""
    text = inspect.cleandoc(cls.__doc__ or "")
    parts = re.split(r"^(\w[^\n:]*):\n(?=    )", text, flags=re.MULTILINE)
    return list(zip(["", *parts[1::2]], parts[::2], strict=True))


class OptionType(NamedTuple):
    """The facts of an option that follow from the type of its field."""

    kind: Kind | None
    choices: tuple[str, ...] | None = None
    several: bool = False


def option_types(cls: type) -> dict[str, OptionType]:
    """Return what the types of the fields say of their options."""
    return {n: _option_type(t) for n, t in hints_of(cls, include_extras=True).items()}


def _option_type(hint: Any) -> OptionType:
    if get_origin(hint) in (Union, UnionType):
        hint = next(each for each in get_args(hint) if each is not NoneType)
    if get_origin(hint) is tuple:
        each = _option_type(get_args(hint)[0])
        return OptionType(None) if each.several else each._replace(several=True)
    if get_origin(hint) is Literal:
        return OptionType(Kind(str), choices=get_args(hint))
    if get_origin(hint) is Annotated:
        return OptionType(hint.__metadata__[0])
    if get_origin(hint) is Mapping:
        return OptionType(Kind(_pair), several=True)
    return OptionType(_KINDS.get(hint))


def _pair(text: str) -> str:
    if "=" not in text:
        raise argparse.ArgumentTypeError(f"takes NAME=VALUE. Received: {text!r}")
    return text


def option_name(name: str) -> str:
    """Return the option of a field."""
    return f"--{name.replace('_', '-')}"


def spelled_options(cls: type) -> dict[str, str]:
    """Return the options of all fields, by the names of the fields."""
    found: dict[str, str] = {}
    for each in fields(cls):
        if place := each.metadata.get("settings_of"):
            found |= spelled_options(resolve_name(place))
        else:
            is_positional = each.metadata.get("positional")
            found[each.name] = each.name if is_positional else option_name(each.name)
    return found


def add_options(parser: Any, cls: type, title: str = "") -> None:
    """Add the options of a dataclass to a parser, in groups by their sections."""
    # With a title there is one group, and only what is given is in the result.
    declared, types = {each.name: each for each in fields(cls)}, option_types(cls)
    one_of: Any = None
    for section, described in describe(cls).sections.items():
        known = {name: words for name, words in described.items() if name in declared}
        group, heading = parser, section if section != "Args" else title
        if known and heading:
            group = parser.add_argument_group(heading.lower())
        for name, words in known.items():
            metadata, owner = declared[name].metadata, group
            if place := metadata.get("settings_of"):
                add_options(parser, resolve_name(place), title=words)
                continue
            if metadata.get("one_of"):
                one_of = one_of or group.add_mutually_exclusive_group(required=True)
                owner = one_of
            names, options = _arguments(declared[name], types[name], bool(title))
            if names:
                owner.add_argument(*names, help=_help(words, options), **options)


def _arguments(
    declared: "Field[Any]", type_: OptionType, is_partial: bool
) -> tuple[list[str], dict[str, Any]]:
    """Return the arguments of `add_argument`, without names if there is no option."""
    metadata, kind, default = declared.metadata, type_.kind, declared.default
    if kind is None:
        return [], {}
    options: dict[str, Any] = {"type": kind.read}
    if kind.read is bool:
        switch: Any = argparse.BooleanOptionalAction if is_partial else "store_true"
        options = {"action": switch}
    if type_.choices:
        options["choices"] = type_.choices
    if type_.several:
        options["nargs"] = "+"
    if kind.read is _pair:
        options["metavar"] = "NAME=VALUE"
    if is_partial:
        options["default"] = argparse.SUPPRESS
    elif default is not MISSING:
        options["default"] = default
    options |= metadata.get("options", {})
    if metadata.get("positional"):
        return [declared.name], options
    if default is MISSING and not is_partial:
        options["required"] = True
    return [option_name(declared.name), *metadata.get("names", ())], options


def _help(text: str, options: Mapping[str, Any]) -> str:
    default = options.get("default")
    # By identity, since 0 equals `False`.
    if not any(default is x for x in (None, False, argparse.SUPPRESS)):
        shown = f"{default:,}" if isinstance(default, int) else default
        text = f"{text}; by default {shown}"
    return text.replace("`", "").replace("%", "%%")


def read_options(cls: type, parsed: dict[str, Any]) -> Any:
    """Return an instance of a dataclass with what was parsed."""
    given = {}
    for each in fields(cls):
        if "settings_of" not in each.metadata:
            value = parsed.pop(each.name)
            given[each.name] = tuple(value) if isinstance(value, list) else value
    for each in fields(cls):
        if "settings_of" in each.metadata:
            given[each.name] = parsed
    return cls(**given)
