"""Splits input files into parts that are processed independently."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_albert.utils.local_path import local_path
from keras_albert.utils.packages import import_package

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_COMPRESSED = (".gz",)
_EXTRA = "keras-albert[pretraining]"


@dataclass(frozen=True)
class InputPart:
    """A range of a file; a compressed file is a single part."""

    path: str
    size: int
    changed: float
    begin: int = 0
    end: int | None = None

    @property
    def num_bytes(self) -> int:
        """The number of bytes of the part, compressed if the file is."""
        return (self.size if self.end is None else self.end) - self.begin

    @property
    def is_compressed(self) -> bool:
        """Whether the file is compressed with gzip."""
        return self.path.lower().endswith(_COMPRESSED)

    @property
    def is_json(self) -> bool:
        """Whether each line is a JSON document."""
        name = self.path.lower()
        for suffix in _COMPRESSED:
            name = name.removesuffix(suffix)
        return name.endswith(JSON_SUFFIXES)


def find_parts(inputs: Sequence[str], part_size: int) -> list[InputPart]:
    """Find the files, and split them."""
    filesystems = beam_filesystems()
    found: dict[str, Any] = {}
    for pattern, match in zip(inputs, filesystems.match(list(inputs)), strict=True):
        if not match.metadata_list:
            msg = f"{pattern!r} matches no file. Pass text files (.txt, .gz, .jsonl)."
            raise ValueError(msg)
        found |= {file.path: file for file in match.metadata_list}
    parts = []
    for path in sorted(found):
        file = found[path]
        whole = InputPart(path, file.size_in_bytes, file.last_updated_in_seconds or 0)
        if whole.is_compressed:
            parts.append(whole)
            continue
        for begin in range(0, whole.size, part_size):
            end = min(begin + part_size, whole.size)
            parts.append(InputPart(path, whole.size, whole.changed, begin, end))
    return parts


def beam_path(path: str | os.PathLike[str]) -> str:
    """Return a path for Beam; of remote ones, a `Path` has lost a slash."""
    return path if isinstance(path, str) else os.fspath(local_path(path))


def beam_filesystems() -> Any:
    """Import Beam's filesystems, or name the extra that installs them."""
    name = "apache_beam.io.filesystems"
    return import_package("Preparing texts", _EXTRA, name).FileSystems
