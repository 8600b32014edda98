"""The options of `pretrain`: the fields of `PretrainingConfig`."""

import argparse
import ast
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import docstring_parser

from keras_albert_cli.number_types import whole_number

_PACKAGE = Path(__file__).resolve().parents[1] / "keras_albert"
_FILE = _PACKAGE / "pretraining" / "config.py"
_CLASS = "PretrainingConfig"
_KINDS: dict[str, dict[str, Any]] = {
    "bool": {"action": argparse.BooleanOptionalAction},
    "float": {"type": float},
    "int": {"type": whole_number(0, 2**31 - 1)},
    "str": {},
    "Mapping[str, Any]": {"nargs": "+", "metavar": "NAME=VALUE"},
}


def add_settings(parser: Any) -> None:
    """Add an option for each field, with the description in the docstring.

    The class is not imported, which takes seconds; its source is read. Settings that
    are tables (`stages`) have no option, as only a settings file can express them.
    """
    body = ast.parse(_FILE.read_text(encoding="utf-8")).body
    [declared] = (n for n in body if isinstance(n, ast.ClassDef) and n.name == _CLASS)
    parsed = docstring_parser.parse(ast.get_docstring(declared) or "")
    descriptions = {each.arg_name: each.description for each in parsed.params}
    for field in declared.body:
        if not isinstance(field, ast.AnnAssign):
            continue
        name = ast.unparse(field.target)
        kind = _KINDS.get(ast.unparse(field.annotation).removesuffix(" | None"))
        if kind is not None:
            parser.add_argument(
                f"--{name.replace('_', '-')}",
                default=argparse.SUPPRESS,
                help=_help(descriptions[name] or "", descriptions),
                **kind,
            )


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
