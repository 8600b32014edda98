"""The list of formats that `export` can write.

This module knows no format; `keras_albert.serving` registers its own here when the
package is imported, so that tasks need not know who serves them.
"""

from collections.abc import Callable
from typing import Any

Writer = Callable[..., Any]

_WRITERS: dict[str, Writer] = {}


def register_export(name: str, writer: Writer) -> None:
    """Teach `export` a format.

    Args:
        name: string. What `format` is called with.
        writer: Callable of the task, the path and further arguments.
    """
    _WRITERS[name] = writer


def export_formats() -> tuple[str, ...]:
    """Return the names of all formats, in the order of their registration."""
    return tuple(_WRITERS)


def export_writer(name: str) -> Writer:
    """Find the writer of a format.

    Args:
        name: string. The format.

    Returns:
        The writer.

    Raises:
        ValueError: If there is no such format.
    """
    if name not in _WRITERS:
        msg = (
            f"There is no export format {name!r}. Choose one of: "
            f"{', '.join(sorted(_WRITERS))}."
        )
        raise ValueError(msg)
    return _WRITERS[name]
