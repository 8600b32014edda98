"""Checks of a preset's weight files, before anything is loaded from them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

import h5py
import keras
import numpy as np

from keras_albert.presets.checkpoint import INDEX_FILE, WEIGHTS_FILE
from keras_albert.types import FloatArray
from keras_albert.utils.reading import read_json, reading

# The layers of a backbone in Keras' files, and the weights of a layer.
_LAYERS = {
    "embedding": "factorized_embedding",
    "encoder": "shared_transformer_encoder",
    "pooler": "dense",
}
_NUMBERS = {"kernel": 0, "bias": 1, "gamma": 0, "beta": 1, "embeddings": 0}


def weights_path(directory: Path) -> Path:
    """Return the path of a preset's weights."""
    for name in (WEIGHTS_FILE, INDEX_FILE):
        if (directory / name).is_file():
            return directory / name
    raise ValueError(
        f"{directory} contains neither `{WEIGHTS_FILE}` nor `{INDEX_FILE}`. Copy or "
        "download the preset again. For random weights, pass `load_weights=False`."
    )


class StoredArray(NamedTuple):
    """The shape and type of an array in a file."""

    shape: tuple[int, ...]
    kind: str  # "float" for any floating point type, else its name.


def check_stored_weights(
    model: keras.Model | Sequence[keras.Variable], path: Path
) -> None:
    """Check that a file contains exactly the weights of a model."""
    # Keras ignores weights that only the file or only the model has, so a model whose
    # config and weights contradict each other would be half random. The file numbers
    # its weights, so this compares the number of weights of each shape.
    weights = model if isinstance(model, Sequence) else model.weights
    stored = Counter(stored_arrays(path))
    built = Counter(StoredArray(tuple(w.shape), _kind(w.dtype)) for w in weights)
    if stored != built:
        raise ValueError(
            f"{path} does not contain the weights of the model that its config "
            f"describes. Only in the file: {_listed(stored - built)}. Only in the "
            f"model: {_listed(built - stored)}. Nothing was loaded. Use files that "
            "belong together, and leave out arguments that change shapes."
        )
    check_finite(path)


def head_weights(task: Any) -> list[keras.Variable]:
    """Return the weights of a task that its backbone does not have."""
    inside = {id(weight) for weight in task.backbone.weights}
    return [weight for weight in task.weights if id(weight) not in inside]


def check_finite(path: Path) -> None:
    """Check that the weights in a file are finite, one array after the other."""
    for file in _files(path):
        with reading(file):
            for name, entry in _entries(file):
                is_float = _kind_of(entry) == "float"
                if is_float and not np.isfinite(_floats(entry[()])).all():
                    raise ValueError(
                        f"{file} has a weight that is NaN or infinite, in {name!r}. "
                        "Copy or download it again; if it was already so when it was "
                        "saved, use an earlier checkpoint and a lower learning rate."
                    )


def read_backbone(path: Path, paths: Iterable[str]) -> dict[str, FloatArray]:
    """Return the arrays of a file by the paths of a model's weights, others by name."""
    arrays: dict[str, FloatArray] = {}
    for file in _files(path):
        named_arrays(file)
        with reading(file):
            arrays |= {name: _floats(entry[()]) for name, entry in _entries(file)}
    places = {at: path for path, at in _places(paths).items()}
    return {places.get(name, name): value for name, value in arrays.items()}


def _places(paths: Iterable[str]) -> dict[str, str]:
    """Return where Keras stores a backbone's weights, by their paths in the model."""
    places: dict[str, str] = {}
    blocks: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for path in paths:
        scope, _, name = path.rpartition("/")
        layer, *inner = scope.split("/")
        if layer == "encoder" and len(inner) > 1:
            number = blocks.setdefault(inner[0], len(blocks))
            block = "transformer_block" + (f"_{number}" if number else "")
            inner = ["blocks", block, *inner[1:]]
        at = "/".join(("layers", _LAYERS.get(layer, layer), *inner, "vars"))
        # Those of a frozen layer come in another order.
        places[path] = f"{at}/{_NUMBERS.get(name, counts[scope])}"
        counts[scope] += 1
    return places


def stored_arrays(path: Path) -> list[StoredArray]:
    """Return the arrays of a weights file, checking that it contains them in full."""
    return [array for file in _files(path) for array in named_arrays(file).values()]


def named_arrays(path: Path) -> dict[str, StoredArray]:
    """Return the arrays of one HDF5 file by their paths in it; see `stored_arrays`."""
    arrays: dict[str, StoredArray] = {}
    places: list[tuple[int, int]] = []
    claimed = 0
    with reading(path):
        for name, entry in _entries(path):
            if entry.external or entry.is_virtual:
                raise ValueError(f"the values of {name!r} are in another file")
            # HDF5 would convert numbers whose exponent, say, is in other bits.
            is_plain = entry.dtype.kind not in "fiu" or entry.id.get_type().equal(
                h5py.h5t.py_create(entry.dtype)
            )
            if not is_plain:
                raise ValueError(f"the numbers of {name!r} have an unknown format")
            # An array that was never written is read as zeros, and a compressed one may
            # have any size; Keras writes neither.
            if entry.shape is None or entry.id.get_storage_size() < entry.nbytes:
                raise ValueError(
                    f"it contains only a part of {name!r}, or compressed values"
                )
            claimed += entry.nbytes
            if (first := entry.id.get_offset()) is not None:
                places.append((first, first + entry.nbytes))
            arrays[name] = StoredArray(tuple(entry.shape), _kind_of(entry))
        if claimed > path.stat().st_size:
            raise ValueError("its arrays need more bytes than it has")
        places.sort()
        if any(end > first for (_, end), (first, _) in pairwise(places)):
            raise ValueError("two of its arrays overlap")
    return arrays


def check_shard_name(name: object, index: Path) -> str:
    """Return the name of a shard, checking that it cannot lead out of its directory."""
    # Both flavours: an index may have been written on the other system.
    if isinstance(name, str) and name not in ("", ".", "..") and "\0" not in name:
        flavours = (PurePosixPath(name), PureWindowsPath(name))
        if all(path.parts == (name,) and not path.anchor for path in flavours):
            return name
    raise ValueError(
        f"{index} names the file {name!r}, and shards must be plain file names in "
        "its directory. Do not use this checkpoint, or correct the index."
    )


def _files(path: Path) -> list[Path]:
    if path.suffix != ".json":
        return [path]
    with reading(path):
        values = list(read_json(path)["weight_map"].values())
        lists = [value if isinstance(value, list) else [value] for value in values]
        names = {check_shard_name(name, path) for each in lists for name in each}
    return [path.parent / name for name in sorted(names)]


def _entries(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a file, without the states of optimizers and generators."""
    if not path.is_file():
        raise ValueError(f"{path} is missing. Copy or download the whole preset again.")
    with reading(path), h5py.File(path) as file:
        names: list[str] = []
        file.visit(names.append)
        for name, entry in ((name, file[name]) for name in names):
            is_array = isinstance(entry, h5py.Dataset) and entry.dtype != "uint32"
            if is_array and not name.startswith("optimizer/"):
                yield name, entry


def _kind_of(entry: Any) -> str:
    # HDF5 has no name for bfloat16; Keras stores it in an attribute.
    is_opaque = entry.dtype.kind == "V"
    return _kind(entry.attrs.get("dtype", entry.dtype) if is_opaque else entry.dtype)


def _floats(values: Any) -> Any:
    if values.dtype.kind == "f":
        # As they are computed with; a float64 may be too large for that.
        with np.errstate(over="ignore"):
            return values.astype("f4", copy=False)
    if values.dtype.itemsize != 2:
        raise TypeError(f"its floats of {values.dtype.itemsize} bytes are unknown")
    # bfloat16, the upper half of a float32.
    return (values.view("<u2").astype("<u4") << 16).view("<f4")


def _kind(dtype: object) -> str:
    return "float" if "float" in str(dtype) else str(dtype)


def _listed(arrays: Counter[StoredArray], most: int = 20) -> str:
    """Format arrays as `float (2, 3)` or `int8 (2, 3) x 4`."""
    listed = [
        f"{kind} {shape}" + (f" x {count}" if count > 1 else "")
        for (shape, kind), count in arrays.items()
    ]
    more = [f"and {len(listed) - most} more"] if len(listed) > most else []
    return ", ".join(listed[:most] + more) or "nothing"
