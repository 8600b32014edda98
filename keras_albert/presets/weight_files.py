"""Weight files of all formats as named tensors, whose shapes are known before values.

Keras' and TensorFlow's HDF5, safetensors, PyTorch's pickles and TensorFlow's
checkpoints, in one file or in shards. All are untrusted: memory is allocated for what a
file contains, never for what it claims.
"""

import mmap
import pickletools
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, NamedTuple

import h5py
import keras
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
            raise ValueError(f"Two files that {path} names contain {twice[0]!r}.")
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
    raise ValueError(f"{index} names {name!r}, which is not a file in its directory.")


def _open_file(path: Path) -> dict[str, StoredTensor]:
    openers = {
        ".bin": _open_torch,
        ".safetensors": _open_safetensors,
        ".index": _open_tensorflow,
    }
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
            raise ValueError("it has too many names, or too deep groups")

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
            raise ValueError("its tensors need more bytes than its data files have")

    def read(name: str) -> Any:
        with reading(path, remedy):
            return reader.get_tensor(name)

    return {
        name: StoredTensor(tuple(shape), kind(types[name]), partial(read, name))
        for name, shape in shapes.items()
    }


_TORCH_REMEDY = (
    "Copy or download it again; or save the model with a current version of "
    "transformers (`save_pretrained`), which writes safetensors."
)
# All that a pickle of tensors names.
_TORCH_NAMES = {
    "collections OrderedDict",
    *(f"torch._utils _rebuild_{kind}" for kind in ("tensor_v2", "parameter")),
    *(
        f"torch {kind}Storage"
        for kind in (
            *("Half", "BFloat16", "Float", "Double", "ComplexFloat", "ComplexDouble"),
            *("Bool", "Byte", "Char", "Short", "Int", "Long"),
        )
    ),
}
# Before PyTorch 1.6: a number, a version, the machine, the tensors and their keys.
_STREAM_PROGRAMS = 5
_MAX_PROGRAM_BYTES = 2**22


def _open_torch(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a pickle, after a check of its program and sizes."""
    torch = import_package(f"Reading {path}", "torch>=2.6", "torch")
    size = path.stat().st_size
    with reading(path, _TORCH_REMEDY), ExitStack() as opened:
        file = opened.enter_context(open(path, "rb"))
        if file.read(4) == b"PK\3\4":
            stored = _check_zip(file, size)
            found = torch.load(path, "cpu", weights_only=True, mmap=True)
        else:
            # A file allocates as many bytes as a pickle asks for; a map returns at
            # most what there is.
            access = mmap.ACCESS_READ
            mapped = opened.enter_context(mmap.mmap(file.fileno(), 0, access=access))
            for number in range(_STREAM_PROGRAMS):
                _check_pickle(mapped, size if number == 3 else None)
            stored = size
            mapped.seek(0)
            found = torch.load(mapped, "cpu", weights_only=True)
        storages: dict[int, int] = {}
        views: dict[Any, int] = {}
        for name, tensor in found.items():
            if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
                raise TypeError(f"it contains a {type(tensor).__name__}, not a tensor")
            storage, taken = tensor.untyped_storage(), tensor.nbytes
            if taken > storage.nbytes():
                raise ValueError("a tensor is larger than its storage")
            # Tied weights are one tensor under two names.
            storages[storage.data_ptr()] = storage.nbytes()
            views[tensor.data_ptr(), tensor.shape, tensor.stride()] = taken
        if sum(storages.values()) > stored or sum(views.values()) > size:
            raise ValueError("its tensors need more bytes than it has")
    return {
        name: StoredTensor(tuple(x.shape), kind(x.dtype), partial(_to_numpy, x))
        for name, x in found.items()
    }


def _to_numpy(tensor: Any) -> npt.NDArray[Any]:
    tensor = tensor.detach()
    # NumPy has no bfloat16.
    is_known = str(tensor.dtype) != "torch.bfloat16"
    return (tensor if is_known else tensor.float()).numpy()


def _check_zip(file: IO[bytes], size: int) -> int:
    """Check an archive of PyTorch, and return the number of bytes of its tensors.

    PyTorch neither verifies the checksums, nor that a tensor ends where its file does.
    """
    with zipfile.ZipFile(file) as archive:
        members = {member.filename: member for member in archive.infolist()}
        # PyTorch does not compress, so a compressed file is suspicious.
        if any(x.compress_type != zipfile.ZIP_STORED for x in archive.infolist()):
            raise ValueError("its members are compressed")
        sizes = {name: member.file_size for name, member in members.items()}
        if sum(sizes.values()) > size or len(sizes) < len(archive.infolist()):
            raise ValueError("its members overlap")
        if damaged := archive.testzip():
            raise ValueError(f"the checksum of {damaged} is wrong")
        (pickled,) = (name for name in sizes if name.endswith("/data.pkl"))
        with archive.open(pickled) as program:
            _check_pickle(program, size)
        data = f"{pickled.removesuffix('data.pkl')}data/"
        return sum(sizes[name] for name in sizes if name.startswith(data))


def _check_pickle(file: Any, most: int | None) -> None:
    """Raise if a pickle names anything but tensors, or a number above `most`."""
    # PyTorch itself also allows `bytearray(n)` and `Tensor(n)`, of any size.
    for opcode, argument, position in pickletools.genops(file):
        if (position or 0) > _MAX_PROGRAM_BYTES:
            raise ValueError("its pickle is too long")
        if opcode.name == "GLOBAL" and argument not in _TORCH_NAMES:
            raise ValueError(f"it has more than tensors, and could run {argument}")
        if most is not None and isinstance(argument, int) and argument > most:
            raise ValueError(f"it has {most:,} bytes and claims {argument:,} numbers")


# The shape of an array and its type, "float" for any floating point type.
_Array = tuple[Shape, str]


def check_stored_weights(
    model: keras.Model | Sequence[keras.Variable], path: Path
) -> None:
    """Check that a file contains exactly the weights of a model, all of them finite."""
    # Keras ignores weights that only the file or only the model has, so a model whose
    # config and weights contradict each other would be half random. The file numbers
    # its weights, so this compares the number of weights of each shape.
    weights = model if isinstance(model, Sequence) else model.weights
    tensors = open_weights(path)
    stored = Counter((each.shape, each.kind) for each in tensors.values())
    built = Counter((tuple(each.shape), kind(each.dtype)) for each in weights)
    if stored != built:
        raise ValueError(
            f"{path} and its config do not belong together, or an argument changes "
            f"shapes. Only in the file: {_listed(stored - built)}. Only in the model: "
            f"{_listed(built - stored)}. Nothing was loaded."
        )
    check_finite(path)


def head_weights(task: Any) -> list[keras.Variable]:
    """Return the weights of a task that its backbone does not have."""
    inside = {id(weight) for weight in task.backbone.weights}
    return [weight for weight in task.weights if id(weight) not in inside]


def check_finite(path: Path) -> None:
    """Check that the weights in a file are finite, one array after the other."""
    for file in files_of(path):
        for name, tensor in open_weights(file).items():
            if tensor.kind == "float" and not np.isfinite(tensor.read()).all():
                raise ValueError(
                    f"{file} has a weight that is NaN or infinite, in {name!r}. Copy "
                    "it again, or use an earlier checkpoint."
                )


def _listed(arrays: Counter[_Array]) -> str:
    """Format arrays as `int8 (2, 3) x 4`."""
    listed = [f"{name} {shape} x {n}" for (shape, name), n in arrays.items()]
    return ", ".join(listed[:20]) or "nothing"
