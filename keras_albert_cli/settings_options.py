"""The options of `pretrain`: the fields of `PretrainingConfig`."""

import argparse
import ast
from pathlib import Path
from typing import Any

import docstring_parser

_PACKAGE = Path(__file__).resolve().parents[1] / "keras_albert"
_FILE = _PACKAGE / "pretraining" / "settings" / "config.py"
_CLASS = "PretrainingConfig"
_KINDS: dict[str, dict[str, Any]] = {
    "bool": {"action": argparse.BooleanOptionalAction},
    "float": {"type": float, "metavar": "NUMBER"},
    "int": {"type": int, "metavar": "INTEGER"},
    "str": {"metavar": "TEXT"},
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
                help=_without_type(descriptions[name]).replace("%", "%%"),
                **kind,
            )


def _without_type(description: str | None) -> str:
    """Return the sentences after the type, as in "int. Updates of the weights."."""
    return (description or "").split(".", 1)[-1].strip()
