"""Weights in one file or in shards, of which the shapes are known before the values."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from keras_albert.presets.reading import read_json, reading
from keras_albert.presets.stored_weights import check_shard_name


class StoredTensor(NamedTuple):
    """A tensor that a file really holds.

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
    """List the tensors of a file, or of the shards that an index names.

    Args:
        single: Path. The file that holds all of them.
        index: Path. If there is no such file, the index; shards lie beside it.
        read_file: Callable of the path of a file, whole or a shard.

    Returns:
        The tensors by name.

    Raises:
        ValueError: If a file is damaged, or the index names files outside the
            directory, or files or tensors that are not there.
        OSError: If there is neither.
    """
    if single.is_file():
        return read_file(single)
    weight_map: dict[str, str] = {}
    with reading(index):
        for name, shard in read_json(index)["weight_map"].items():
            weight_map[name] = check_shard_name(shard, index)
    tensors: dict[str, StoredTensor] = {}
    for shard in sorted(set(weight_map.values())):
        if not (index.parent / shard).is_file():
            msg = f"{index} names {shard}, which is absent. Copy or download it too."
            raise ValueError(msg)
        found = read_file(index.parent / shard)
        if others := [name for name in found if weight_map.get(name) != shard]:
            msg = (
                f"{index.parent / shard} holds tensors that {index.name} does not "
                f"name: {', '.join(others[:20])}. Copy or download the files again."
            )
            raise ValueError(msg)
        tensors |= found
    absent = [name for name in weight_map if name not in tensors]
    if absent:
        msg = (
            f"{index} lists tensors that its shards do not hold: "
            f"{', '.join(absent[:20])}. Copy or download the files again."
        )
        raise ValueError(msg)
    return tensors
