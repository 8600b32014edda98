"""`keras-albert pretrain`: pretrains a model on prepared texts."""

import argparse
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from keras_albert.commands.report import plain_console
from keras_albert.pretraining.config import PretrainingConfig
from keras_albert.pretraining.pretrain import pretrain


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    console = plain_console()
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


def _show(console: Console, scores: dict[str, float], output: Path) -> None:
    path = output / "report.json"
    baselines = json.loads(path.read_text(encoding="utf-8"))["baselines"]
    table = Table("metric", "held out", "without reading")
    for name, value in scores.items():
        beside = f"{baselines[name]:.4f}" if name in baselines else ""
        table.add_row(name, f"{value:.4f}", beside)
    console.print(table)
    console.print(f"model: {output / 'preset'}\nreport: {path}", soft_wrap=True)


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
