"""Optional packages, and versions of packages."""

import importlib.util
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import keras


def check_packages(what: str, install: str, *packages: str) -> None:
    """Raise if an optional package is missing, with the command that installs it."""
    find = importlib.util.find_spec
    missing = [package for package in packages if find(package) is None]
    if missing:
        msg = (
            f"{what} needs {' and '.join(missing)}, which cannot be imported. Install: "
            f'pip install "{install}"'
        )
        raise ImportError(msg)


def import_package(what: str, install: str, name: str) -> Any:
    """Import an optional package, or a module in it; see `check_packages`."""
    check_packages(what, install, name.partition(".")[0])
    return importlib.import_module(name)


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of packages, and the name of the backend."""
    found = {"python": platform.python_version(), "backend": keras.config.backend()}
    own = ("keras-albert", "keras", "keras-hub", keras.config.backend())
    for package in own + packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
