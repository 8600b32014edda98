"""Optional packages, and versions of packages."""

import importlib.util
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import keras


def check_packages(what: str, install: str, *packages: str) -> None:
    """Raise if an optional package is missing, with the command that installs it.

    Args:
        what: string. The feature that needs them, as the start of the message.
        install: string. The requirement for `pip install`.
        *packages: string. Names to import.

    Raises:
        ImportError: If one of them is not installed.

    Example:
        >>> from keras_albert.utils.packages import check_packages
        >>> check_packages("This page", "json5", "json", "json5000")
        Traceback (most recent call last):
        ...
        ImportError: This page needs json5000, which cannot be imported. Install: pip install "json5"
    """  # noqa: E501  (the message is one line)
    find = importlib.util.find_spec
    missing = [package for package in packages if find(package) is None]
    if missing:
        msg = (
            f"{what} needs {' and '.join(missing)}, which cannot be imported. Install: "
            f'pip install "{install}"'
        )
        raise ImportError(msg)


def import_package(what: str, install: str, name: str) -> Any:
    """Import an optional package, or a module in it; see `check_packages`.

    Raises:
        ImportError: If the package is not installed.
    """
    check_packages(what, install, name.partition(".")[0])
    return importlib.import_module(name)


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
