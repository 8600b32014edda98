"""`keras-albert export`: exports a model for a server or a device."""

import argparse
from pathlib import Path

from keras_albert.conversion.task_classes import load_task
from keras_albert.tasks.base.export_formats import check_export_options

_OPTIONS = (
    *("quantize", "inputs", "pairs", "sequence_length", "version", "max_length"),
    *("top_k", "overwrite", "early"),
)


def run(arguments: argparse.Namespace) -> int:
    """Run the command, and return its exit status.

    Raises:
        ValueError: If the format lacks an option, or the model cannot be exported.
    """
    given = {name: getattr(arguments, name) for name in _OPTIONS}
    # Compared by identity, as a version may be 0.
    given = {
        name: value
        for name, value in given.items()
        if value is not None and value is not False
    }
    check_export_options(arguments.format, given, _spell)
    task = load_task(arguments.preset, arguments.task)
    written: Path = task.export(arguments.path, format=arguments.format, **given)
    size = sum(file.stat().st_size for file in _files(written))
    name = type(task).__name__
    print(f"{written}: {name}, {size / 1e6:,.1f} MB")
    return 0


def _spell(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
