"""`keras-albert export`: exports a model for a server or a device."""

import argparse
import inspect
from pathlib import Path
from typing import Any

from keras_albert.commands.number_types import whole_number
from keras_albert.conversion.task_classes import load_task
from keras_albert.tasks.base.export_formats import export_formats, export_writer

_HELP = """Export a model for a server or a device.

  tf_saved_model  a directory of versions for TensorFlow Serving; takes texts
  onnx            a file for ONNX Runtime or OpenVINO; takes token ids or texts
  litert          a file for LiteRT (TensorFlow Lite); takes token ids
"""


def add_parser(commands: Any) -> None:
    """Add the parser of this command."""
    parser = commands.add_parser(
        "export",
        help="export a model for a server or a device",
        description=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("preset", help="a fine-tuned model: a directory or a handle")
    parser.add_argument("path", type=Path, help="the file or directory to write")
    parser.add_argument("--format", choices=export_formats(), default="tf_saved_model")
    parser.add_argument(
        "--task", metavar="NAME", help="the class to load it as; by default its own"
    )
    options = parser.add_argument_group("options of each format")
    options.add_argument(
        "--quantize", help="onnx: int8; litert: dynamic_int8 or fp16; by default float"
    )
    options.add_argument("--inputs", help="onnx: tokens (by default) or text")
    options.add_argument(
        "--pairs", action="store_true", help="onnx: take pairs of texts"
    )
    options.add_argument(
        "--sequence-length",
        type=whole_number(),
        help="litert: fixed length of rows in tokens; by default any",
    )
    options.add_argument(
        "--version",
        type=whole_number(0),
        help="tf_saved_model: by default the next one",
    )
    options.add_argument(
        "--max-length",
        type=whole_number(),
        help="tf_saved_model: the maximum length of rows in tokens",
    )
    options.add_argument(
        "--top-k", type=whole_number(), help="tf_saved_model: number of predictions"
    )
    options.add_argument(
        "--overwrite", action="store_true", help="onnx, litert: replace the file"
    )
    parser.set_defaults(run=run)


_OPTIONS = (
    *("quantize", "inputs", "pairs", "sequence_length", "version", "max_length"),
    *("top_k", "overwrite"),
)


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Args:
        arguments: The parsed arguments.

    Returns:
        The exit status.

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
    known = inspect.signature(export_writer(arguments.format)).parameters
    for name in given:
        if name not in known:
            names = [_spell(option) for option in _OPTIONS if option in known]
            msg = (
                f"{arguments.format} has no option {_spell(name)}. It has: "
                f"{', '.join(names)}."
            )
            raise ValueError(msg)
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
