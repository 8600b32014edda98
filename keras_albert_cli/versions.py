"""The versions that a report of a bug needs."""

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = (
    *("keras", "keras-hub", "tensorflow", "tensorflow-text", "jax", "jaxlib", "torch"),
    *("numpy", "protobuf", "sentencepiece", "safetensors", "h5py", "transformers"),
    *("onnx", "onnxscript", "onnxruntime", "onnxruntime-extensions", "ai-edge-litert"),
    *("apache-beam", "pyarrow", "sentencex", "tensorboard"),
)


def describe_versions() -> str:
    """Return the versions of this package, Python, the system and other packages.

    They are read from the packages' metadata: nothing is imported.
    """
    lines = [
        f"keras-albert {_version('keras-albert') or '(not installed)'}",
        f"Python {platform.python_version()}, {platform.platform()}",
        f"Keras backend: {backend()}",
    ]
    found = ((package, _version(package)) for package in _PACKAGES)
    return "\n".join([*lines, *(f"{name} {known}" for name, known in found if known)])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def backend() -> str:
    """Find the backend as Keras does: variable, settings file, TensorFlow."""
    if chosen := os.environ.get("KERAS_BACKEND"):
        return chosen
    home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
    try:
        settings = json.loads(Path(home, "keras.json").read_text(encoding="utf-8"))
        return str(settings["backend"])
    except (OSError, ValueError, KeyError, TypeError):
        return "tensorflow"
