"""Vectors of texts on disk, which another call or program finds again."""

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from keras_albert.types import FloatArray

# Of the file; it begins anew with more.
_MAX_BYTES = 1 << 30
# Of one query of SQLite.
_KEYS = 500


def vector_cache_path() -> Path | None:
    """Return the file of the vectors, `None` if `KERAS_ALBERT_CACHE` is "off"."""
    directory = os.environ.get("KERAS_ALBERT_CACHE")
    if directory == "off":
        return None
    general = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    path = Path(directory or Path(general, "keras_albert"), "vectors.sqlite")
    return path.expanduser()


class VectorCache:
    """Vectors by a key, a digest of what they depend on."""

    # What cannot be read or written is computed: a cache is no reason to fail.

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        """Return the vectors that there are."""
        found: dict[bytes, FloatArray] = {}
        if self._path is None or not self._path.is_file():
            return found
        with suppress(sqlite3.Error, OSError), closing(self._connect()) as file:
            for start in range(0, len(keys), _KEYS):
                part = keys[start : start + _KEYS]
                marks = ", ".join("?" * len(part))
                query = f"SELECT key, vector FROM vectors WHERE key IN ({marks})"  # noqa: S608
                for key, vector in file.execute(query, part):
                    found[key] = np.frombuffer(vector, np.float32)
        return found

    def write(self, vectors: Mapping[bytes, FloatArray]) -> None:
        """Add vectors."""
        if self._path is None:
            return
        with suppress(sqlite3.Error, OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.is_file() and self._path.stat().st_size > _MAX_BYTES:
                self._path.unlink()
            rows = [(key, vector.tobytes()) for key, vector in vectors.items()]
            with closing(self._connect()) as file, file:
                file.execute(
                    "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, "
                    "vector BLOB) WITHOUT ROWID"
                )
                file.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(str(self._path))
