"""`keras-albert pretrain`: pretrains a model on prepared texts."""

import argparse
import json
import re
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import Any, get_type_hints

from rich.console import Console
from rich.table import Table

from keras_albert.pretraining.pretrain import pretrain
from keras_albert.pretraining.settings.config import PretrainingConfig
from keras_albert.utils.arguments import allowed_types

_HELP = """Pretrain on the output of `keras-albert prepare`.

Settings are read from a TOML or JSON file and from flags, which take precedence. OUTPUT
receives checkpoints, curves and, at the end, a preset with a model card. If the run is
interrupted, the same command resumes it with the same result.
"""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "pretrain",
        help="pretrain a model on prepared texts",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, help="a TOML or JSON file of settings")
    descriptions = _descriptions()
    declared = get_type_hints(PretrainingConfig)
    for each in fields(PretrainingConfig):
        if each.name == "stages":
            # Stages are tables, which only a settings file can express.
            continue
        flag = f"--{each.name.replace('_', '-')}"
        parser.add_argument(
            flag,
            default=argparse.SUPPRESS,
            help=descriptions.get(each.name, "").replace("%", "%%"),
            **_parsing(declared[each.name]),
        )
    parser.add_argument(
        "--quiet", action="store_true", help="print one line for each row of the curve"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Args:
        arguments: The parsed arguments.

    Returns:
        The exit status.

    Raises:
        ValueError: If a setting, a file or the data are invalid.
    """
    console = Console()
    known = {each.name for each in fields(PretrainingConfig)}
    given = {name: value for name, value in vars(arguments).items() if name in known}
    if "backbone" in given:
        given["backbone"] = _read_pairs(given["backbone"])
    config = PretrainingConfig.from_file(arguments.config, **given)
    is_quiet = arguments.quiet or not console.is_terminal
    try:
        scores = pretrain(config, verbose=2 if is_quiet else 1)
    except KeyboardInterrupt as stop:
        stop.add_note("the same command goes on")
        raise
    _show(console, scores, Path(config.output))
    return 0


def _show(console: Console, scores: dict[str, float], output: Path) -> None:
    path = output / "report.json"
    baselines = json.loads(path.read_text(encoding="utf-8"))["baselines"]
    table = Table("metric", "held out", "without reading")
    for name, value in scores.items():
        beside = f"{baselines[name]:.4f}" if name in baselines else ""
        table.add_row(name, f"{value:.4f}", beside)
    console.print(table)
    console.print(f"model: {output / 'preset'}\nreport: {path}", soft_wrap=True)


def _parsing(declared: Any) -> dict[str, Any]:
    """Return the `argparse` arguments for a flag of a type."""
    allowed = [kind for kind in allowed_types(declared) if kind is not NoneType]
    if bool in allowed:
        return {"action": argparse.BooleanOptionalAction}
    if allowed[0] in (int, float, str):
        return {"type": allowed[0]}
    return {"nargs": "+", "metavar": "NAME=VALUE"}


def _read_pairs(pairs: list[str]) -> dict[str, Any]:
    """Read pairs `NAME=VALUE`; a value is JSON or a plain word."""
    read = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            msg = f"`--backbone` takes NAME=VALUE. Received: {pair!r}"
            raise ValueError(msg)
        try:
            read[name] = json.loads(value)
        except ValueError:
            read[name] = value
    return read


def _descriptions() -> dict[str, str]:
    """Read the descriptions of the settings from their docstring."""
    text = PretrainingConfig.__doc__ or ""
    section = re.search(r"Args:\n(.*?)\n\n", text, re.DOTALL)
    if section is None:
        return {}
    entries = re.findall(
        r"^ {8}(\w+): (.*?)(?=^ {8}\w|\Z)", section[1], re.DOTALL | re.MULTILINE
    )
    return {name: " ".join(words.split()) for name, words in entries}
