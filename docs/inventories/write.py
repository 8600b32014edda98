"""Writes the inventories of Keras, NumPy, Python and TensorFlow that the site uses.

Keras and TensorFlow publish none, and the site is built without a network. So each
inventory has only the names that our docstrings and signatures refer to, with the
addresses at which their projects document them. `sphinx-build -n` names a missing one:
add it here and run `python docs/inventories/write.py`.
"""

import zlib
from pathlib import Path

# Name of the project, its version, and for each name (role, address below the site).
_KERAS = {
    "keras.Model": ("class", "models/model/#model-class"),
    "keras.callbacks.History": ("class", "callbacks/"),
    "keras.initializers.Initializer": ("class", "layers/initializers/"),
    "keras.layers.Layer": ("class", "layers/base_layer/#layer-class"),
    "keras.losses.Loss": ("class", "losses/#base-loss-api"),
    "keras.metrics.Metric": ("class", "metrics/base_metric/#metric-class"),
    "keras.optimizers.Optimizer": ("class", "optimizers/"),
}
_NUMPY = {
    "numpy.ndarray": ("class", "reference/generated/numpy.ndarray.html"),
    "numpy.random.Generator": (
        "class",
        "reference/random/generator.html#numpy.random.Generator",
    ),
    **{
        f"numpy.{name}": ("class", f"reference/arrays.scalars.html#numpy.{name}")
        for name in ("float32", "int32", "int64")
    },
}
_TENSORFLOW = {"tensorflow.data.Dataset": ("class", "tf/data/Dataset")}
_PYTHON = {
    name: (role, f"library/{page}.html#{name}")
    for page, role, names in (
        ("stdtypes", "class", ("dict", "list", "set", "frozenset", "str", "tuple")),
        ("functions", "class", ("bool", "float", "int", "object", "type")),
        (
            "exceptions",
            "exception",
            (
                *("ConnectionError", "FileExistsError", "FileNotFoundError"),
                *("FloatingPointError", "ImportError", "IsADirectoryError"),
                *("KeyError", "NotADirectoryError", "NotImplementedError"),
                *("OSError", "RuntimeError", "TypeError", "ValueError"),
            ),
        ),
        (
            "collections.abc",
            "class",
            tuple(
                f"collections.abc.{name}"
                for name in ("Callable", "Iterable", "Iterator", "Mapping", "Sequence")
            ),
        ),
        ("contextlib", "class", ("contextlib.AbstractContextManager",)),
        ("os", "class", ("os.PathLike",)),
        ("pathlib", "class", ("pathlib.Path",)),
        ("typing", "data", ("typing.Literal", "typing.Self")),
        ("constants", "data", ("None",)),
    )
    for name in names
}
INVENTORIES = {
    "keras": _KERAS,
    "numpy": _NUMPY,
    "python": _PYTHON,
    "tensorflow": _TENSORFLOW,
}


def write(path: Path, project: str, entries: dict[str, tuple[str, str]]) -> None:
    """Write an inventory in Sphinx' format, version 2.

    Args:
        path: The file.
        project: string. The name in its header.
        entries: dict. For each name the kind of object, and its address.
    """
    lines = [
        f"{name} py:{role} 1 {address} -"
        for name, (role, address) in sorted(entries.items())
    ]
    header = (
        "# Sphinx inventory version 2\n"
        f"# Project: {project}\n"
        "# Version: \n"
        "# The remainder of this file is compressed using zlib.\n"
    )
    body = zlib.compress(("\n".join(lines) + "\n").encode(), 9)
    path.write_bytes(header.encode() + body)


if __name__ == "__main__":
    for name, entries in INVENTORIES.items():
        write(Path(__file__).parent / f"{name}.inv", name, entries)
