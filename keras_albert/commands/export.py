"""`keras-albert export`: exports a model for a server or a device."""

import argparse
from pathlib import Path

from keras_albert.conversion.task_classes import load_task
from keras_albert.tasks.base.export_formats import (
    check_export_options,
    format_of_path,
)

_OPTIONS = (
    *("quantize", "inputs", "pairs", "sequence_length", "version", "max_length"),
    *("top_k", "overwrite", "early"),
)


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    # Compared by identity, as a version may be 0.
    given = {
        name: value
        for name in _OPTIONS
        if (value := getattr(arguments, name)) is not None and value is not False
    }
    name = arguments.format or format_of_path(arguments.path)
    check_export_options(
        name, arguments.path, given, lambda name: f"--{name.replace('_', '-')}"
    )
    task = load_task(arguments.preset, arguments.task)
    written: Path = task.export(arguments.path, format=name, **given)
    files = [p for p in (written, *written.rglob("*")) if p.is_file()]
    size = sum(file.stat().st_size for file in files)
    print(f"{written}: {type(task).__name__}, {size / 1e6:,.1f} MB")
