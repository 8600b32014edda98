"""Weights in one file or in shards, with shapes that are read before the values."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from keras_albert.presets.stored_weights import check_shard_name
from keras_albert.utils.reading import read_json, reading


class StoredTensor(NamedTuple):
    """A tensor that a file has been checked to contain.

    Attributes:
        shape: Tuple of int.
        read: Callable without arguments. Returns the NumPy array.
    """

    shape: tuple[int, ...]
    read: Callable[[], npt.NDArray[Any]]


def stored_tensors(
    single: Path,
    index: Path,
    read_file: Callable[[Path], dict[str, StoredTensor]],
) -> dict[str, StoredTensor]:
    """Return the tensors of a file, or of the shards that an index names."""
    if single.is_file():
        return read_file(single)
    weight_map: dict[str, str] = {}
    with reading(index):
        for name, shard in read_json(index)["weight_map"].items():
            weight_map[name] = check_shard_name(shard, index)
    tensors: dict[str, StoredTensor] = {}
    for shard in sorted(set(weight_map.values())):
        if not (index.parent / shard).is_file():
            msg = (
                f"{index} names {shard}, which does not exist. Copy or download it as "
                "well."
            )
            raise ValueError(msg)
        found = read_file(index.parent / shard)
        if others := [name for name in found if weight_map.get(name) != shard]:
            msg = (
                f"{index.parent / shard} contains tensors that {index.name} does not "
                f"list: {', '.join(others[:20])}. Copy or download the files again."
            )
            raise ValueError(msg)
        tensors |= found
    absent = [name for name in weight_map if name not in tensors]
    if absent:
        msg = (
            f"{index} lists tensors that its shards do not contain: "
            f"{', '.join(absent[:20])}. Copy or download the files again."
        )
        raise ValueError(msg)
    return tensors
