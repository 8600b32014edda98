"""The formats of `export`.

`keras_albert.serving` registers them when the package is imported, since tasks do not
import it.
"""

from collections.abc import Callable
from typing import Any

Writer = Callable[..., Any]

_WRITERS: dict[str, Writer] = {}


def register_export(name: str, writer: Writer) -> None:
    """Register a format of `export`.

    Args:
        name: string. The argument `format` of `export`.
        writer: Callable of the task, the path and further arguments.
    """
    _WRITERS[name] = writer


def export_formats() -> tuple[str, ...]:
    """Return the names of all formats, in the order of their registration."""
    return tuple(_WRITERS)


def export_writer(name: str) -> Writer:
    """Return the writer of a format, or raise `ValueError` if there is none."""
    if name not in _WRITERS:
        msg = (
            f"There is no export format {name!r}. Choose one of: "
            f"{', '.join(sorted(_WRITERS))}."
        )
        raise ValueError(msg)
    return _WRITERS[name]
