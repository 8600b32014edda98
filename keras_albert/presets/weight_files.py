"""Weight files of all formats as named tensors, whose shapes are known before values.

Keras' and TensorFlow's HDF5, safetensors, PyTorch's pickles and TensorFlow's
checkpoints, in one file or in shards. All are untrusted: memory is allocated for what a
file contains, never for what it claims.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

import h5py
import numpy as np
import numpy.typing as npt
from safetensors import safe_open

from keras_albert.utils.environment import import_package
from keras_albert.utils.reading import parse_json, read_json, reading

Shape = tuple[int, ...]

# The headers of ALBERT's safetensors have a few kilobytes.
MAX_HEADER_BYTES = 2**22
# A BERT of 1,000 layers has 48,000 groups and arrays in Keras' files.
MAX_NAMES = 2**16
MAX_DEPTH = 32


class StoredTensor(NamedTuple):
    """A tensor that a file has been checked to contain."""

    shape: Shape
    kind: str  # "float" for any floating point type, else its name.
    read: Callable[[], npt.NDArray[Any]]


def inspect_weights(path: Path) -> dict[str, Shape]:
    """Return the shapes of the tensors in a file or in its shards, by their names."""
    return {name: tensor.shape for name, tensor in open_weights(path).items()}


def open_weights(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors in a file, or in the shards that an index lists."""
    found: dict[str, StoredTensor] = {}
    for shard in files_of(path):
        if not shard.is_file():
            raise ValueError(f"{shard} is missing. Copy or download it.")
        tensors = _open_file(shard)
        if twice := sorted(found.keys() & tensors.keys()):
            raise ValueError(
                f"{shard} contains {twice[0]!r}, and so does another file that {path} "
                "names. Copy or download the files again."
            )
        found |= tensors
    return found


def files_of(path: Path) -> list[Path]:
    """Return a file, or the shards that an index names, which are next to it."""
    if path.suffix != ".json":
        return [path]
    with reading(path):
        values = list(read_json(path)["weight_map"].values())
        lists = [value if isinstance(value, list) else [value] for value in values]
        names = {_check_shard_name(name, path) for each in lists for name in each}
    return [path.parent / name for name in sorted(names)]


def _check_shard_name(name: object, index: Path) -> str:
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


def _open_file(path: Path) -> dict[str, StoredTensor]:
    if path.suffix == ".bin":
        from keras_albert.presets.torch_files import open_torch  # noqa: PLC0415  (rarely needed)

        return open_torch(path)
    openers = {".safetensors": _open_safetensors, ".index": _open_tensorflow}
    return openers.get(path.suffix, _open_h5)(path)


def _open_safetensors(path: Path) -> dict[str, StoredTensor]:
    with reading(path):
        with open(path, "rb") as header:
            length = int.from_bytes(header.read(8), "little")
            if length > MAX_HEADER_BYTES:
                raise ValueError(f"its header claims {length:,} bytes")
            # Refuses a name that occurs twice.
            parse_json(header.read(length))
        # `safe_open` checks the shapes against the size of the file. It stays open,
        # mapped to memory, as long as its tensors are in use.
        file = safe_open(path, framework="numpy")

        def read(name: str) -> npt.NDArray[Any]:
            with reading(path):
                return np.asarray(file.get_tensor(name))

        found = {}
        for name in file.keys():  # noqa: SIM118  (the file is no mapping)
            view = file.get_slice(name)
            kind = view.get_dtype()
            kind = "float" if kind.startswith(("F", "BF")) else kind
            found[name] = StoredTensor(
                tuple(view.get_shape()), kind, partial(read, name)
            )
        return found


def _open_h5(path: Path) -> dict[str, StoredTensor]:
    """Return the arrays of an HDF5 file, which must contain them in full."""
    # Without the states of optimizers and of generators of random numbers.
    names: list[str] = []

    def visit(name: str) -> None:
        names.append(name)
        if len(names) > MAX_NAMES or name.count("/") > MAX_DEPTH:
            raise ValueError(
                f"it has more than {MAX_NAMES:,} names, or groups deeper than "
                f"{MAX_DEPTH}"
            )

    def read(name: str) -> npt.NDArray[Any]:
        with reading(path), h5py.File(path) as file:
            return _floats(file[name][()])

    found: dict[str, StoredTensor] = {}
    places: list[tuple[int, int]] = []
    claimed = 0
    with reading(path), h5py.File(path) as file:
        file.visit(visit)
        for name in names:
            entry = file[name]
            is_array = isinstance(entry, h5py.Dataset) and entry.dtype != "uint32"
            if not is_array or name.startswith("optimizer/"):
                continue
            _check_array(name, entry)
            claimed += entry.nbytes
            if (first := entry.id.get_offset()) is not None:
                places.append((first, first + entry.nbytes))
            kind = _kind_of(entry)
            found[name] = StoredTensor(tuple(entry.shape), kind, partial(read, name))
        if claimed > path.stat().st_size:
            raise ValueError("its arrays need more bytes than it has")
        places.sort()
        if any(end > first for (_, end), (first, _) in pairwise(places)):
            raise ValueError("two of its arrays overlap")
    return found


def _check_array(name: str, entry: Any) -> None:
    """Raise if the values of an array are not in the file, in a plain form."""
    if entry.external or entry.is_virtual:
        raise ValueError(f"the values of {name!r} are in another file")
    # HDF5 would convert numbers whose exponent, say, is in other bits.
    is_plain = entry.dtype.kind not in "fiu" or entry.id.get_type().equal(
        h5py.h5t.py_create(entry.dtype)
    )
    if not is_plain:
        raise ValueError(f"the numbers of {name!r} have an unknown format")
    # An array that was never written is read as zeros, and a compressed one may have
    # any size; Keras writes neither.
    if entry.shape is None or entry.id.get_storage_size() < entry.nbytes:
        raise ValueError(f"it contains only a part of {name!r}, or compressed values")


def _kind_of(entry: Any) -> str:
    # HDF5 has no name for bfloat16; Keras stores it in an attribute.
    is_opaque = entry.dtype.kind == "V"
    return kind(entry.attrs.get("dtype", entry.dtype) if is_opaque else entry.dtype)


def kind(dtype: object) -> str:
    """Return "float" for any floating point type, and the names of others."""
    return "float" if "float" in str(dtype) else str(dtype)


def _floats(values: Any) -> Any:
    if values.dtype.kind == "f":
        # As they are computed with; a float64 may be too large for that.
        with np.errstate(over="ignore"):
            return values.astype("f4", copy=False)
    if values.dtype.kind != "V":
        return values
    if values.dtype.itemsize != 2:
        raise TypeError(f"its floats of {values.dtype.itemsize} bytes are unknown")
    # bfloat16, the upper half of a float32.
    return (values.view("<u2").astype("<u4") << 16).view("<f4")


def _open_tensorflow(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a checkpoint of TensorFlow, by the path of its index."""
    what = "A checkpoint of google-research/albert"
    tf = import_package(what, "tensorflow", "tensorflow")
    prefix = path.with_suffix("")
    data = sum(x.stat().st_size for x in path.parent.glob(f"{prefix.name}.data-*"))
    remedy = f"Copy or download `{path.name}` and `{prefix.name}.data-...` again."
    with reading(path, remedy):
        reader = tf.train.load_checkpoint(str(prefix))
        shapes = reader.get_variable_to_shape_map()
        types = reader.get_variable_to_dtype_map()
        # An element of a tensor has at least one byte.
        if sum(map(prod, shapes.values())) > data:
            raise ValueError(
                f"its tensors need more bytes than its data files contain ({data:,})"
            )

    def read(name: str) -> Any:
        with reading(path, remedy):
            return reader.get_tensor(name)

    return {
        name: StoredTensor(tuple(shape), kind(types[name]), partial(read, name))
        for name, shape in shapes.items()
    }
