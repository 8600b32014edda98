"""The processors of this machine, for reports."""

import os
import platform
import re
import sys
from pathlib import Path

import keras


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


def cpu_vendor() -> str:
    """Return a string that contains the vendor of the CPU, such as "AuthenticAMD"."""
    return _on_linux("vendor_id") or platform.processor()


def _on_linux(entry: str) -> str | None:
    information = Path("/proc/cpuinfo")
    if not information.exists():
        return None
    values = re.findall(rf"{entry}\s*: (.+)", information.read_text())
    return str(values[0]) if values else None


def _accelerators() -> list[str]:
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
