"""Safetensors files, single or in shards, read as untrusted input."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.conversion.weight_files import StoredTensor, stored_tensors
from keras_albert.utils.reading import parse_json, reading

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

# ALBERT's headers have a few kilobytes.
_LONGEST_HEADER = 2**22


def safetensors_of(directory: Path) -> dict[str, StoredTensor]:
    """Return a checkpoint's tensors.

    Nothing is unpickled: safetensors contain numbers and no code.
    """
    single, index = directory / SINGLE_FILE, directory / INDEX_FILE
    if not single.is_file() and not index.is_file():
        msg = (
            f"{directory} contains neither `{SINGLE_FILE}` nor `{INDEX_FILE}`. Save "
            "the model with `save_pretrained` of transformers, which writes "
            "safetensors."
        )
        raise ValueError(msg)
    return stored_tensors(single, index, _read_file)


def write_safetensors(directory: Path, tensors: dict[str, npt.NDArray[Any]]) -> None:
    """Write one file that transformers reads."""
    from safetensors.numpy import save_file  # noqa: PLC0415  (rarely needed)

    # transformers refuses a file that does not name the library of its layout.
    save_file(tensors, directory / SINGLE_FILE, metadata={"format": "pt"})


def _read_file(path: Path) -> dict[str, StoredTensor]:
    from safetensors import safe_open  # noqa: PLC0415  (rarely needed)

    def tensor(name: str) -> npt.NDArray[Any]:
        with reading(path), safe_open(path, framework="numpy") as file:
            return np.asarray(file.get_tensor(name))

    with reading(path):
        _check_header(path)
        # `safe_open` checks the shapes against the size of the file.
        with safe_open(path, framework="numpy") as file:
            return {
                name: StoredTensor(
                    tuple(file.get_slice(name).get_shape()),
                    lambda name=name: tensor(name),  # type: ignore[misc]
                )
                for name in file.keys()  # noqa: SIM118  (the file is no mapping)
            }


def _check_header(path: Path) -> None:
    """Raise if a header is too large, or names a tensor twice."""
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > _LONGEST_HEADER:
            msg = f"its header claims {length:,} bytes"
            raise ValueError(msg)
        parse_json(file.read(length))
