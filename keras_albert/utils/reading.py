"""Reading untrusted files, with one error that names the file and the remedy; JSON."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from keras_albert.utils.remote import local_path

_REMEDY = "Copy or download it again."

# The configs of released models are a few kilobytes; parsed JSON takes up to twenty
# times its bytes in memory.
_MAX_BYTES = 2**23

_KINDS: dict[type, str] = {dict: "an object", list: "a list"}
_MAX_REASON = 300


@contextmanager
def reading(path: str | os.PathLike[str], remedy: str | None = None) -> Iterator[None]:
    """Convert any error that a damaged file causes to a `ValueError`."""
    # Parsers fail in many ways. Not converted are errors that already name the file, a
    # missing package, and a lack of memory.
    try:
        yield
    except (ImportError, MemoryError, Warning):
        raise
    except Exception as error:
        name = os.fspath(path)
        if isinstance(error, ValueError | OSError) and name in str(error):
            raise
        # The first line of the error, with its type if that is informative.
        text, *_ = str(error).strip().splitlines() or [""]
        if len(text) > _MAX_REASON:
            text = f"{text[:_MAX_REASON]}..."
        plain = type(error) in (OSError, RuntimeError, TypeError, ValueError)
        if not (plain and text):
            text = f"{type(error).__name__}: {text}".rstrip(": ")
        raise ValueError(
            f"{name}{_size(path)} is damaged, or a different kind of file ({text}). "
            f"{remedy or _REMEDY}"
        ) from error


def read_json(path: str | os.PathLike[str], kind: type = dict) -> Any:
    """Read a JSON file, of a bounded size."""
    with reading(path):
        return parse_json(read_bytes(path, _MAX_BYTES), kind)


def read_optional_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read the object of a JSON file; an empty dict if there is no file."""
    return read_json(path) if Path(path).exists() else {}


def parse_json(content: bytes, kind: type = dict) -> Any:
    """Parse JSON that is part of a larger file; see `read_json`."""
    found = json.loads(content.decode("utf-8"), object_pairs_hook=unique_names)
    if not isinstance(found, kind):
        msg = f"it contains {type(found).__name__}, but must contain {_KINDS[kind]}"
        raise TypeError(msg)
    return found


def write_json(path: Path, content: Any, sort_keys: bool = False) -> None:
    """Write a JSON file."""
    text = json.dumps(content, indent=2, ensure_ascii=False, sort_keys=sort_keys)
    path.write_text(f"{text}\n", encoding="utf-8")


def read_bytes(path: str | os.PathLike[str], most_bytes: int) -> bytes:
    """Read a file, of a bounded size."""
    # Reading a pipe may block forever, and reading a device may never end.
    if local_path(path).exists() and not Path(path).is_file():
        raise ValueError(
            f"{os.fspath(path)} is not a regular file. Replace it with the file itself."
        )
    with open(path, "rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(
            f"{os.fspath(path)} has more than {most_bytes:,} bytes, too many for such "
            f"a file. {_REMEDY}"
        )
    return content


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of a JSON file, whose names must differ."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"it has {name!r} twice")
        found[name] = value
    return found


def _size(path: str | os.PathLike[str]) -> str:
    file = Path(path)
    try:
        return f" ({file.stat().st_size:,} bytes)" if file.is_file() else ""
    except (OSError, ValueError):
        return ""
