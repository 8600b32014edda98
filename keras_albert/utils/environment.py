"""Optional packages, versions, and the processors of this machine."""

import importlib.util
import os
import platform
import re
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def check_packages(what: str, install: str, *packages: str) -> None:
    """Raise if an optional package is missing, with the command that installs it."""
    find = importlib.util.find_spec
    missing = [package for package in packages if find(package) is None]
    if missing:
        raise ImportError(
            f"{what} needs {' and '.join(missing)}, which cannot be imported. Install: "
            f'pip install "{install}"'
        )


def import_package(what: str, install: str, name: str) -> Any:
    """Import an optional package, or a module in it; see `check_packages`."""
    check_packages(what, install, name.partition(".")[0])
    return importlib.import_module(name)


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of Python and of packages, and the name of the backend."""
    import keras  # noqa: PLC0415  (workers that prepare texts do without it)

    backend = keras.config.backend()
    found = {"python": platform.python_version(), "backend": backend}
    for package in ("keras-albert", "keras", "keras-hub", backend, *packages):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def describe_hardware() -> str:
    """Return the accelerators that the backend uses, or the CPU."""
    names = _accelerators()
    if names:
        return f"{len(names)} x {names[0]}"
    return f"{cpu_cores()} cores of {cpu_name()}"


def cpu_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_name() -> str:
    """Return the model of the CPU, or its architecture where the model is unknown."""
    return _on_linux("model name") or platform.processor() or platform.machine()


def _on_linux(entry: str) -> str | None:
    information = Path("/proc/cpuinfo")
    if not information.exists():
        return None
    values = re.findall(rf"{entry}\s*: (.+)", information.read_text())
    return str(values[0]) if values else None


def _accelerators() -> list[str]:
    import keras  # noqa: PLC0415  (see above)

    backend = keras.config.backend()
    # The backend has loaded its library.
    library = sys.modules[backend]
    if backend == "jax":
        devices = library.devices()
        return [] if devices[0].platform == "cpu" else [d.device_kind for d in devices]
    if backend == "torch":
        count = library.cuda.device_count()
        return [library.cuda.get_device_name(number) for number in range(count)]
    devices = library.config.list_physical_devices()
    details = library.config.experimental.get_device_details
    return [
        details(device).get("device_name", device.device_type)
        for device in devices
        if device.device_type != "CPU"
    ]


def new_figure(width: float, height: float) -> Any:
    """Return a figure of matplotlib; the size is in inches."""
    check_packages("A figure", "keras-albert[examples]", "matplotlib")
    # Not with pyplot, which would choose a window system.
    from matplotlib.figure import Figure  # noqa: PLC0415  (an extra)

    return Figure(figsize=(width, height), layout="constrained")
