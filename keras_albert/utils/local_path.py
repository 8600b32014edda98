"""Paths of this machine's file systems."""

import os
import re
from pathlib import Path

# One slash, as `Path` joins two; one letter is a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")


def local_path(path: str | os.PathLike[str]) -> Path:
    """Return a path, after a check that it is not the address of a remote storage.

    `pathlib` takes `gs://bucket/name` for a folder `gs:` of the working directory.

    Args:
        path: string or path.

    Raises:
        ValueError: If it begins with a scheme, such as `gs://` or `s3://`.

    Example:
        >>> from keras_albert.utils.local_path import local_path
        >>> local_path("models/films").name
        'films'
        >>> local_path("s3://models/films")
        Traceback (most recent call last):
        ...
        ValueError: s3://models/films is not a path of this machine: files are read and written on local file systems only. Pass a local or mounted directory, and copy the files with the tool of the storage.
    """  # noqa: E501  (the message is one line)
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
