"""Versions of the packages that a result depends on."""

import platform
from importlib.metadata import PackageNotFoundError, version

import keras


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of packages, and the name of the backend.

    Args:
        *packages: string. Other packages that the result depends on, by their names
            in pip.

    Returns:
        A dict of names and versions, of installed packages only.
    """
    found = {"python": platform.python_version(), "backend": keras.config.backend()}
    own = ("keras-albert", "keras", "keras-hub", keras.config.backend())
    for package in own + packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
