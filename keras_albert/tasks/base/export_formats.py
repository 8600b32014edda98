"""The formats of `export`, each imported when it is first looked up."""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

Writer = Callable[..., Any]

# The functions of `keras_albert.serving` by the argument `format` of `export`. They are
# called with the task, the path and further arguments.
WRITERS = {
    "tf_saved_model": "export_saved_model",
    "onnx": "export_onnx",
    "litert": "export_litert",
    "mediapipe": "export_mediapipe",
    "server": "export_server",
    "transformers_onnx": "export_transformers_onnx",
    "web_page": "export_web_page",
}
_DEFAULT = "tf_saved_model"
# The formats of a suffix, first the default.
_SUFFIXES = {".onnx": ("onnx",), ".tflite": ("litert", "mediapipe")}


def format_of_path(path: Path) -> str:
    """Return the format that the suffix of a path stands for."""
    return _formats_of_path(path)[0]


def _formats_of_path(path: Path) -> tuple[str, ...]:
    return _SUFFIXES.get(path.suffix.lower(), (_DEFAULT,))


def export_writer(name: str) -> Writer:
    """Return the writer of a format, or raise `ValueError` if there is none."""
    if name not in WRITERS:
        raise ValueError(
            f"There is no export format {name!r}. Choose one of: "
            f"{', '.join(sorted(WRITERS))}."
        )
    writer: Writer = resolve_name(f"keras_albert.serving:{WRITERS[name]}")
    return writer


def check_export_options(
    name: str, path: Path, options: Iterable[str], spell: Callable[[str], str] = repr
) -> None:
    """Check that a format has options, and that a path does not name another one."""
    known = _options(name)
    named = format_of_path(path)
    if named != _DEFAULT and name not in _formats_of_path(path):
        raise ValueError(
            f"{path} is named as a file of the format {named!r}, and would be written "
            f"as {name!r}. Pass format={named!r}, or choose another name."
        )
    for option in options:
        if option in known:
            continue
        others = [each for each in WRITERS if option in _options(each)]
        hint = f" {spell(option)} is an option of: {', '.join(others)}."
        raise ValueError(
            f"{name} has no option {spell(option)}. It has: "
            f"{', '.join(map(spell, known))}.{hint if others else ''}"
        )


def _options(name: str) -> list[str]:
    """Return the arguments of a writer after the task and the path."""
    return list(inspect.signature(export_writer(name)).parameters)[2:]
