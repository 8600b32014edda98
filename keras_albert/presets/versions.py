"""The versions that a result depends on."""

import platform
from importlib.metadata import PackageNotFoundError, version

import keras


def versions() -> dict[str, str]:
    """Name Python, the backend, and the versions of what is installed of us.

    Returns:
        A dict of names and versions.
    """
    found = {"python": platform.python_version(), "backend": keras.config.backend()}
    for package in ("keras-albert", "keras", "keras-hub", keras.config.backend()):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
