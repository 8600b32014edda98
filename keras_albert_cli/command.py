"""Commands, their options, and the types of numbers that `argparse` checks."""

import argparse
import ast
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Parser = argparse.ArgumentParser

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


@dataclass(frozen=True)
class Option:
    """An argument of a command, or one of its options; see `argparse`."""

    names: tuple[str, ...]
    help: str
    arguments: Mapping[str, Any]


Options = dict[str, Sequence[Option]]

# What an option takes, by the names in the texts of options.
KINDS: dict[str, dict[str, Any]] = {
    "": {},
    "flag": {"action": "store_true"},
    # `None` if it is not given.
    "switch": {"action": "store_const", "const": True},
    "path": {"type": Path},
    "count": {"type": whole_number()},
    "fraction": {"type": fraction},
    "probability": {"type": probability},
    "positive": {"type": positive_number},
    "seed": {"type": SEED},
    "layers": {"type": LAYERS},
    "tokens": {"type": TOKENS},
    "batch_size": {"type": BATCH_SIZE},
}
_ENTRY = re.compile(
    r"(?P<names>[\w-]+(?: --[\w-]+)?)(?: (?P<metavar>[A-Z=]+))?"
    r"(?: \((?P<rule>.*?)\))?: ?(?P<help>.*)"
)
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


def read_options(text: str) -> Options:
    """Read options: a line each, `--name METAVAR (kind = default): help`, in groups."""
    # A kind is of `KINDS`, a range or choices; "..." takes several. A line that goes on
    # is indented, and `[title]` begins a group.
    found: dict[str, list[Option]] = {}
    title = ""
    for line in re.split(r"\n(?! )", text.strip()):
        if line.startswith("["):
            title = line.strip("[]")
            continue
        match = _ENTRY.fullmatch(" ".join(line.split()))
        if match is None:
            raise ValueError(f"This is not an option: {line!r}")
        words = match["help"]
        kind, is_set, default = map(str.strip, (match["rule"] or "").partition("="))
        arguments: dict[str, Any] = {}
        if kind.endswith("required"):
            arguments["required"], kind = True, kind.removesuffix("required").strip()
        if kind.endswith("..."):
            arguments["nargs"], kind = "+", kind.removesuffix("...")
        if match["metavar"]:
            arguments["metavar"] = match["metavar"]
        if bounds := _RANGE.fullmatch(kind):
            arguments["type"] = whole_number(int(bounds[1]), int(bounds[2]))
        elif "|" in kind:
            arguments["choices"] = tuple(kind.split("|"))
        else:
            arguments |= KINDS[kind]
        if is_set:
            value = arguments["default"] = arguments.get("type", str)(default)
            is_long = isinstance(value, int) and value > 9999
            shown = f"by default {value:,}" if is_long else f"by default {value}"
            words = f"{words}; {shown}" if words else shown
        names = tuple(match["names"].split())
        found.setdefault(title, []).append(Option(names, words, arguments))
    return {title: tuple(options) for title, options in found.items()}


_MESSAGES = read_options("""
[messages]
--debug (flag): show the traceback of errors
--verbose (flag): show the messages of libraries
""")


@dataclass(frozen=True)
class Command:
    """A command."""

    # `options` are grouped by titles; `paths` are read, and `new_path` is written.

    group: str
    # A module of `keras_albert.commands`, and its function if that is not `run`.
    place: str
    summary: str
    description: str
    example: str
    options: Options
    paths: tuple[str, ...] = ()
    new_path: str = ""
    check: Callable[[Mapping[str, Any]], None] | None = None
    one_of: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The name of the module that runs the command."""
        return self.place.partition(":")[0]

    @property
    def function(self) -> str:
        """The name of the function that runs the command."""
        return self.place.partition(":")[2] or "run"

    def add_options(self, parser: Parser) -> None:
        """Add the options to the parser of the command."""
        for title, options in (self.options | _MESSAGES).items():
            group: Any = parser.add_argument_group(title) if title else parser
            choice: Any = None
            for each in options:
                owner = group
                if each.names[0] in self.one_of:
                    choice = choice or group.add_mutually_exclusive_group(required=True)
                    owner = choice
                owner.add_argument(*each.names, help=each.help, **each.arguments)


_SETTINGS_FILE = Path(__file__).parents[1] / "keras_albert/pretraining/config.py"
_TYPES_OF_SETTINGS: dict[str, dict[str, Any]] = {
    "bool": {"action": argparse.BooleanOptionalAction},
    "float": {"type": float},
    "int": {"type": whole_number(0, 2**31 - 1)},
    "str": {},
    "Mapping[str, Any]": {"nargs": "+", "metavar": "NAME=VALUE"},
}


def settings_options() -> Iterator[Option]:
    """Yield an option for each field of `PretrainingConfig`, which is not imported."""
    # Its source is read, and the help is its docstring. Tables (`stages`) have no
    # option.
    body = ast.parse(_SETTINGS_FILE.read_text(encoding="utf-8")).body
    [declared] = (
        node
        for node in body
        if isinstance(node, ast.ClassDef) and node.name == "PretrainingConfig"
    )
    text = (ast.get_docstring(declared) or "").partition("Args:\n")[2]
    described = dict(
        re.findall(r"^    (\w+): (.*(?:\n        .*)*)", text, re.MULTILINE)
    )
    for field in declared.body:
        if isinstance(field, ast.AnnAssign):
            name = ast.unparse(field.target)
            annotation = ast.unparse(field.annotation).removesuffix(" | None")
            if (type_ := _TYPES_OF_SETTINGS.get(annotation)) is not None:
                help_ = _help(described[name], described)
                arguments = {"default": argparse.SUPPRESS, **type_}
                yield Option((f"--{name.replace('_', '-')}",), help_, arguments)


def _help(description: str, settings: Collection[str]) -> str:
    """Return a description of a setting as the help of an option."""
    text = " ".join(description.split(".", 1)[-1].split())
    text = re.sub(r"Defaults to `(None`[,:] )?", "by default `", text)
    text = text.replace(". by default", "; by default").replace("`{}`", "none")
    text = re.sub(r"(\d)_(\d{3})", r"\1,\2", text)

    def spell(found: "re.Match[str]") -> str:
        name = found[1]
        return f"--{name.replace('_', '-')}" if name in settings else name

    text = re.sub(r"`(\w+)`", spell, text)
    text = re.sub(r'["`]', "", text).rstrip(".").replace("%", "%%")
    return text[:1].lower() + text[1:]
