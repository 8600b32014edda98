"""Parses the command line, and runs the command."""

import argparse
import difflib
import json
import os
import platform
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from keras_albert.cli.arguments import (
    add_options,
    describe,
    option_types,
    read_options,
    spelled_options,
)
from keras_albert.cli.commands import COMMANDS, TASKS, CommandOptions, is_address
from keras_albert.cli.loading import (
    import_without_tensorflow,
    loading,
    set_verbose,
    signals_held_back,
)
from keras_albert.cli.program import run_program

_BACKENDS = ("tensorflow", "jax", "torch")
# The commands that several processes run together, which agree when they stop.
_OF_PROCESSES = ("finetune", "predict", "pretrain")
# The facts that a report of a bug needs.
_PACKAGES = (
    *("keras", "keras-hub", "tensorflow", "tensorflow-text", "jax", "jaxlib", "torch"),
    *("numpy", "protobuf", "sentencepiece", "safetensors", "h5py", "transformers"),
    *("onnx", "onnxscript", "onnxruntime", "onnxruntime-extensions", "ai-edge-litert"),
    *("apache-beam", "pyarrow", "sentencex", "tensorboard"),
)


class _Version(argparse.Action):
    """Prints versions, which are looked up when they are asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(describe_versions())
        parser.exit()


def build_parser(
    asked: Collection[str] = tuple(COMMANDS),
) -> tuple[argparse.ArgumentParser, dict[str, Any]]:
    """Return the parser of the command line, and those of the commands."""
    # Only those that are asked for have options.
    listed = ""
    for group, rows in groupby(COMMANDS.items(), lambda each: each[1].group):
        listed += f"\n{group}:\n"
        for name, row in rows:
            summary = describe(row.options).summary
            listed += f"  {name:<10}{summary[0].lower()}{summary[1:]}\n"
    how: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = argparse.ArgumentParser(
        prog="keras-albert",
        description=f"ALBERT on Keras 3, from raw text to a served model.\n{listed}",
        epilog="KERAS_BACKEND=tensorflow, jax or torch chooses the backend.\n"
        "`keras-albert COMMAND --help` shows the options of a command and an example.",
        **how,
    )
    versions: dict[str, Any] = {"nargs": 0, "default": argparse.SUPPRESS}
    versions["help"] = "show the versions of this package and of those that it uses"
    parser.add_argument("--version", action=_Version, **versions)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", help="one of the above"
    )
    for name, row in COMMANDS.items():
        if name not in asked:
            commands.add_parser(name)
            continue
        described = describe(row.options)
        example = f"example:\n{described.example}"
        if name == "finetune":
            tasks = "".join(f"\n  {task:<22}{files}" for task, files in TASKS.items())
            example = f"tasks and their files:{tasks}\n\n{example}"
        command = commands.add_parser(
            name, description=described.text, epilog=example, **how
        )
        add_options(command, row.options)
        messages = command.add_argument_group("messages")
        for option, help_ in (
            ("--debug", "show the traceback of errors"),
            ("--verbose", "show the messages of libraries"),
        ):
            messages.add_argument(option, action="store_true", help=help_)
    return parser, dict(commands.choices)


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    parsed = argparse.Namespace()

    def parse() -> None:
        # Help and versions are printed here, perhaps for `head`.
        build_parser(words[:1])[0].parse_args(words, parsed)

    if status := run_program("keras-albert", parse):
        return status
    given = vars(parsed)
    command, debug, verbose = (given.pop(k) for k in ("command", "debug", "verbose"))
    set_verbose(verbose)
    row = COMMANDS[command]

    def run() -> int | None:
        options = read_options(row.options, given)
        # Before the imports, which take many seconds.
        options.check()
        paths = _paths(options)
        _check_paths(paths, getattr(options, "overwrite", None))
        _check_backend()
        with signals_held_back() if command in _OF_PROCESSES else nullcontext():
            with loading("keras-albert"):
                if command in _OF_PROCESSES and _backend() != "tensorflow":
                    import_without_tensorflow()
                function = resolve_name(f"keras_albert.cli.{row.place}")
            return function(_fetch(options, paths))

    named = spelled_options(row.options)
    return run_program(f"keras-albert {command}", run, named, debug)


def _paths(options: CommandOptions) -> dict[str, tuple[str, Any]]:
    """Return the paths among options, by their names, and what they must be."""
    kinds = option_types(type(options))
    paths = {n: (k.path, getattr(options, n)) for n, (k, *_) in kinds.items() if k}
    return {name: (what, x) for name, (what, x) in paths.items() if what and x}


def _check_paths(paths: Mapping[str, tuple[str, Any]], overwrite: bool | None) -> None:
    for name, (what, given) in paths.items():
        for path in given if isinstance(given, tuple) else (given,):
            if is_address(path):
                continue
            if what == "new":
                _check_new(path, overwrite, name == "path")
            elif not (os.path.isfile if what == "file" else os.path.isdir)(path):
                msg = f"there is no {what} {path}. Correct the name."
                error = FileNotFoundError(msg)
                error.argument = name  # type: ignore[attr-defined]
                raise error


def _check_new(path: Path, overwrite: bool | None, is_export: bool) -> None:
    """Raise if what is to be written exists, unless `--overwrite` replaces it."""
    # A SavedModel is a new version in its directory.
    if path.exists() and not overwrite and not (is_export and path.is_dir()):
        remedy = "remove it" if overwrite is None else "pass --overwrite"
        msg = f"{path} already exists. Choose another output, or {remedy}."
        raise FileExistsError(msg)


def _fetch(options: Any, paths: Mapping[str, tuple[str, Any]]) -> Any:
    """Return options whose remote files and directories are on this machine."""
    from keras_albert.utils.remote import fetch  # noqa: PLC0415  (not for help)

    fetched = {
        name: tuple(map(fetch, given)) if isinstance(given, tuple) else fetch(given)
        for name, (what, given) in paths.items()
        if what != "new"
    }
    return replace(options, **fetched)


def _check_backend() -> None:
    chosen = _backend()
    if chosen not in _BACKENDS:
        nearest = difflib.get_close_matches(chosen, _BACKENDS, n=1)
        hint = f" Did you mean {nearest[0]}?" if nearest else ""
        raise ValueError(
            f"KERAS_BACKEND must be {', '.join(_BACKENDS[:-1])} or {_BACKENDS[-1]}. "
            f"Received: {chosen}.{hint}"
        )
    if find_spec(chosen) is None:
        others = [name for name in _BACKENDS if find_spec(name) is not None]
        choose = f", or set KERAS_BACKEND={others[0]}" if others else ""
        raise ImportError(f"The backend {chosen} is not installed. Install it{choose}.")


def describe_versions() -> str:
    """Return versions, from the packages' metadata: nothing is imported."""
    lines = [
        f"keras-albert {_version('keras-albert') or '(not installed)'}",
        f"Python {platform.python_version()}, {platform.platform()}",
        f"Keras backend: {_backend()}",
    ]
    found = ((package, _version(package)) for package in _PACKAGES)
    return "\n".join([*lines, *(f"{name} {known}" for name, known in found if known)])


def _version(package: str) -> str | None:
    # It takes as long to import as the rest.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _backend() -> str:
    """Find the backend as Keras does: variable, settings file, TensorFlow."""
    if chosen := os.environ.get("KERAS_BACKEND"):
        return chosen
    home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
    try:
        settings = json.loads(Path(home, "keras.json").read_text(encoding="utf-8"))
        return str(settings["backend"])
    except (OSError, ValueError, KeyError, TypeError):
        return "tensorflow"
