"""Paths of this machine's file systems."""

import os
import re
from pathlib import Path

# One slash, as `Path` joins two; one letter is a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return a path, after a check that it is not the address of a remote storage.

    `pathlib` takes `gs://bucket/name` for a folder `gs:` of the working directory.
    """
    name = os.fspath(path)
    if match := _SCHEME.match(name):
        address = f"{match[1]}://{name[match.end() :]}"
        msg = (
            f"{address} is not a path of this machine: files are read and written on "
            "local file systems only. Pass a local or mounted directory, and copy the "
            "files with the tool of the storage."
        )
        raise ValueError(msg)
    return Path(path)
