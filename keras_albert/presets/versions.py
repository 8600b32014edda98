"""The versions that a result depends on."""

import platform
from importlib.metadata import PackageNotFoundError, version

import keras


def versions(*packages: str) -> dict[str, str]:
    """Name Python, the backend, and the versions of what is installed of us.

    Args:
        *packages: string. Others that the result depends on, as pip names them.

    Returns:
        A dict of names and versions.
    """
    found = {"python": platform.python_version(), "backend": keras.config.backend()}
    own = ("keras-albert", "keras", "keras-hub", keras.config.backend())
    for package in own + packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
