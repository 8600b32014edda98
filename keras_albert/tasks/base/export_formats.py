"""The formats of `export`.

`keras_albert.serving` registers them, since tasks do not import it. It is imported when
a format is first looked up.
"""

import importlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

Writer = Callable[..., Any]

_WRITERS: dict[str, Writer] = {}

# Modules that register formats when they are imported.
_MODULES: set[str] = set()


def register_exports_of(module: str) -> None:
    """Register a module that calls `register_export`, and is not imported before."""
    _MODULES.add(module)


def register_export(name: str, writer: Writer) -> None:
    """Register a format of `export`.

    Args:
        name: string. The argument `format` of `export`.
        writer: Callable of the task, the path and further arguments.
    """
    _WRITERS[name] = writer


def _writers() -> dict[str, Writer]:
    for module in _MODULES:
        importlib.import_module(module)
    return _WRITERS


def export_writer(name: str) -> Writer:
    """Return the writer of a format, or raise `ValueError` if there is none."""
    writers = _writers()
    if name not in writers:
        msg = (
            f"There is no export format {name!r}. Choose one of: "
            f"{', '.join(sorted(writers))}."
        )
        raise ValueError(msg)
    return writers[name]


def check_export_options(
    name: str, options: Iterable[str], spell: Callable[[str], str] = repr
) -> None:
    """Check that a format has options.

    Args:
        name: string. The format.
        options: The names of the options.
        spell: Callable that returns how a user writes a name. Defaults to `repr`.

    Raises:
        ValueError: If it lacks one; the message names the formats that have it.
    """
    known = _options(name)
    for option in options:
        if option in known:
            continue
        others = [each for each in _writers() if option in _options(each)]
        hint = f" {spell(option)} is an option of: {', '.join(others)}."
        msg = (
            f"{name} has no option {spell(option)}. It has: "
            f"{', '.join(map(spell, known))}.{hint if others else ''}"
        )
        raise ValueError(msg)


def _options(name: str) -> list[str]:
    """Return the arguments of a writer after the task and the path."""
    return list(inspect.signature(export_writer(name)).parameters)[2:]
