"""Parses the command line, and runs the command."""

import argparse
import difflib
import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from keras_albert_cli.loading import (
    held_signals,
    import_without_tensorflow,
    loading,
    set_verbose,
)
from keras_albert_cli.options import COMMANDS, build_parser
from keras_albert_cli.run_program import run_program

# Of `keras_albert.utils.reading`: `Path` joins the two slashes.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")
_BACKENDS = ("tensorflow", "jax", "torch")
# The commands that several processes run together, which agree when they stop.
_OF_PROCESSES = ("finetune", "predict", "pretrain")
# Those that a report of a bug needs.
_PACKAGES = (
    *("keras", "keras-hub", "tensorflow", "tensorflow-text", "jax", "jaxlib", "torch"),
    *("numpy", "protobuf", "sentencepiece", "safetensors", "h5py", "transformers"),
    *("onnx", "onnxscript", "onnxruntime", "onnxruntime-extensions", "ai-edge-litert"),
    *("apache-beam", "pyarrow", "sentencex", "tensorboard"),
)


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run a command."""
    parser, subparsers = build_parser()
    parsed = argparse.Namespace()

    def parse() -> None:
        # Help and versions are printed here, perhaps for `head`.
        parser.parse_args(arguments, parsed)

    if status := run_program("keras-albert", parse):
        return status
    chosen = vars(parsed)
    # Commands record their arguments as settings of the run; these are none of them.
    command, debug, verbose = (chosen.pop(k) for k in ("command", "debug", "verbose"))
    set_verbose(verbose)

    def run() -> int | None:
        # Before the imports, which take many seconds.
        asked = COMMANDS[command]
        output = str(chosen.get("output"))
        if command == "predict" and (match := _SCHEME.match(output)):
            # It grows row by row.
            address = f"{match[1]}://{output[match.end() :]}"
            raise ValueError(
                f"`--output`: {address} is not a path on this machine. Pass a local or "
                "mounted path, and copy the files with the tool of the storage."
            )
        if asked.check is not None:
            asked.check(chosen)
        _check_paths(asked.paths, chosen)
        _check_new(asked.new_path, chosen)
        _check_backend()
        with held_signals() if command in _OF_PROCESSES else nullcontext():
            with loading("keras-albert"):
                if command in _OF_PROCESSES and _backend() != "tensorflow":
                    import_without_tensorflow()
                module = import_module(f"keras_albert.commands.{asked.module}")
            _fetch(asked.paths, chosen)
            function: Any = getattr(module, asked.function)
            return function(argparse.Namespace(**chosen))

    options = re.findall(r"--[\w-]+", subparsers[command].format_usage())
    return run_program(f"keras-albert {command}", run, options, debug)


def _fetch(names: Iterable[str], chosen: dict[str, Any]) -> None:
    for name in names:
        value = chosen[name]
        each = value if isinstance(value, list) else [value]
        if any(isinstance(path, Path) and _SCHEME.match(str(path)) for path in each):
            fetch = import_module("keras_albert.utils.remote").fetch
            chosen[name] = [*map(fetch, each)] if each is value else fetch(value)


def _check_paths(names: Iterable[str], chosen: Mapping[str, Any]) -> None:
    lists = {n: x if isinstance(x := chosen[n], list) else [x] for n in names}
    for name, path in [(n, path) for n, paths in lists.items() for path in paths]:
        is_preset = name == "model" and not path.endswith((".onnx", ".tflite"))
        if path is None or is_preset or _SCHEME.match(str(path)):
            continue
        what = "directory" if name == "directory" else "file"
        if not (os.path.isdir(path) if what == "directory" else os.path.isfile(path)):
            msg = f"`{name}`: there is no {what} {path}. Correct the name."
            raise FileNotFoundError(msg)


def _check_new(name: str, chosen: Mapping[str, Any]) -> None:
    """Raise if what is to be written exists, unless `--overwrite` replaces it."""
    path = chosen.get(name)
    if path is None or chosen.get("overwrite") or not os.path.exists(path):
        return
    # A SavedModel is a new version in its directory.
    if not (name == "path" and os.path.isdir(path)):
        remedy = "pass --overwrite" if "overwrite" in chosen else "remove it"
        msg = f"{path} already exists. Choose another output, or {remedy}."
        raise FileExistsError(msg)


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
