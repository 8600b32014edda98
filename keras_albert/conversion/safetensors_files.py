"""Weight files of transformers, whole or in shards, read without trusting them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.presets.stored_weights import check_shard_name

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


def read_safetensors(
    directory: Path, wanted: Callable[[str], bool] = lambda name: True
) -> dict[str, npt.NDArray[Any]]:
    """Read a checkpoint's tensors.

    Nothing is ever unpickled: safetensors hold numbers and no code.

    Args:
        directory: Path. Where `model.safetensors` is, or the index of its shards.
        wanted: Callable of a tensor's name; whether to read it. Defaults to all.

    Returns:
        NumPy arrays by name.

    Raises:
        ValueError: If there are no such files, one is damaged, or the index names
            files outside the directory.
    """
    if (directory / SINGLE_FILE).is_file():
        return _read_file(directory / SINGLE_FILE, wanted)
    if not (directory / INDEX_FILE).is_file():
        msg = (
            f"{directory} holds neither `{SINGLE_FILE}` nor `{INDEX_FILE}`. Save the "
            "model with `save_pretrained` of transformers, which writes safetensors."
        )
        raise ValueError(msg)
    return read_shards(directory / INDEX_FILE, wanted, _read_file)


def read_shards(
    index: Path,
    wanted: Callable[[str], bool],
    read_file: Callable[[Path, Callable[[str], bool]], dict[str, Any]],
) -> dict[str, npt.NDArray[Any]]:
    """Read the tensors that an index spreads over files.

    Args:
        index: Path. The index file; shards lie beside it.
        wanted: Callable of a tensor's name; whether to read it.
        read_file: Callable of a shard's path and of `wanted`; reads one file.

    Returns:
        NumPy arrays by name.

    Raises:
        ValueError: If the index is damaged, names files outside the directory, or
            lists tensors that are not there.
    """
    weight_map = _read_index(index)
    tensors: dict[str, npt.NDArray[Any]] = {}
    for shard in sorted(set(weight_map.values())):
        # The index decides which shard a tensor is read from.
        tensors |= read_file(
            index.parent / shard,
            lambda name, shard=shard: weight_map.get(name) == shard and wanted(name),  # type: ignore[misc]
        )
    absent = [name for name in weight_map if wanted(name) and name not in tensors]
    if absent:
        msg = (
            f"{index} lists tensors that its shards do not hold: "
            f"{', '.join(absent[:20])}. Copy or download the files again."
        )
        raise ValueError(msg)
    return tensors


def write_safetensors(directory: Path, tensors: dict[str, npt.NDArray[Any]]) -> None:
    """Write one file that transformers reads.

    Args:
        directory: Path. Where to; it exists.
        tensors: Contiguous arrays by name.
    """
    from safetensors.numpy import save_file  # noqa: PLC0415  (seldom needed)

    # transformers refuses a file that does not say which library's layout it has.
    save_file(tensors, directory / SINGLE_FILE, metadata={"format": "pt"})


def _read_index(path: Path) -> dict[str, str]:
    try:
        weight_map = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        return {name: check_shard_name(weight_map[name], path) for name in weight_map}
    except (KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError) as error:
        msg = (
            f"{path} is not the index of a sharded checkpoint ({error!r}). Copy or "
            "download it again."
        )
        raise ValueError(msg) from error


def _read_file(path: Path, wanted: Callable[[str], bool]) -> dict[str, Any]:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415  (seldom needed)

    try:
        with safe_open(path, framework="numpy") as file:
            return {
                name: np.asarray(file.get_tensor(name))
                for name in file.keys()  # noqa: SIM118  (the file is no mapping)
                if wanted(name)
            }
    except (SafetensorError, OSError, TypeError, AttributeError) as error:
        size = f"{path.stat().st_size:,} bytes" if path.is_file() else "absent"
        msg = (
            f"{path} ({size}) could not be read: it is damaged, truncated or missing "
            f"({error}). Copy or download it again."
        )
        raise ValueError(msg) from error
