"""The list of foreign checkpoint formats that `from_preset` can read.

This module stands low and knows no format; `keras_albert.conversion` registers
its formats here when the package is imported, so that the arrow runs one way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class CheckpointFormat:
    """How to read one kind of checkpoint directory.

    Args:
        name: string. What a message calls it.
        recognizes: Callable of a directory; whether it holds this format.
        load_backbone: Callable of the directory, `load_weights` and further
            arguments for the constructor; returns an `AlbertBackbone`.
        read_vocabulary: Callable of the directory; returns the bytes of its
            SentencePiece model.
    """

    name: str
    recognizes: Callable[[Path], bool]
    load_backbone: Callable[..., Any]
    read_vocabulary: Callable[[Path], bytes]


_FORMATS: list[CheckpointFormat] = []


def register_format(checkpoint_format: CheckpointFormat) -> None:
    """Teach `from_preset` a format."""
    _FORMATS.append(checkpoint_format)


def find_format(directory: Path) -> CheckpointFormat | None:
    """Find the format of a directory.

    Args:
        directory: Path. A local directory.

    Returns:
        The first registered format that recognizes it; `None` for a preset of our
        own, which KerasHub's loader reads.
    """
    matches = (known for known in _FORMATS if known.recognizes(directory))
    return next(matches, None)
