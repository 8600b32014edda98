"""transformers' weight files as named tensors; shapes are known before the values.

Safetensors, PyTorch's pickles and HDF5, in one file or in shards: all untrusted.
"""

import importlib.util
import mmap
import pickletools
import re
import zipfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import h5py
import numpy as np
import numpy.typing as npt
from safetensors import safe_open
from safetensors.numpy import save_file

from keras_albert.presets.stored_weights import check_shard_name, named_arrays
from keras_albert.utils.atomic_files import atomic_file
from keras_albert.utils.reading import parse_json, read_json, reading

SAFETENSORS_FILE = "model.safetensors"
TORCH_FILE = "pytorch_model.bin"
H5_FILE = "tf_model.h5"
_INDEX = ".index.json"

# ALBERT's headers have a few kilobytes.
_MAX_HEADER_BYTES = 2**22

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

# TensorFlow's kinds of weights, and PyTorch's.
_H5_KINDS = {
    "kernel": "weight",
    "gamma": "weight",
    "embeddings": "weight",
    "beta": "bias",
}
# TensorFlow's ALBERT has both, and computes with the second.
_H5_UNUSED, _H5_USED = "predictions.bias", "predictions.decoder.bias"


class StoredTensor(NamedTuple):
    """A tensor that a file has been checked to contain."""

    shape: tuple[int, ...]
    read: Callable[[], npt.NDArray[Any]]


Tensors = dict[str, StoredTensor]


def stored_weights(directory: Path) -> Tensors:
    """Return a checkpoint's tensors by their present names; `{}` without files."""
    found: Tensors = {}
    if any(directory.glob("*.safetensors*")):
        found = safetensors_of(directory)
    elif _holds(directory, TORCH_FILE):
        found = _read_shards(directory, TORCH_FILE, _read_torch)
    elif (directory / H5_FILE).is_file():
        found = _read_h5(directory / H5_FILE)
    # The former names of a normalization's weights.
    return {
        re.sub(r"(?<=\.LayerNorm\.)(gamma|beta)$", lambda x: _H5_KINDS[x[0]], name): x
        for name, x in found.items()
    }


def safetensors_of(directory: Path) -> Tensors:
    """Return the tensors of `model.safetensors`, or of its shards."""
    if not _holds(directory, SAFETENSORS_FILE):
        raise ValueError(
            f"{directory} contains neither `{SAFETENSORS_FILE}` nor "
            f"`{SAFETENSORS_FILE}{_INDEX}`. Save the model with `save_pretrained` of "
            "transformers, which writes safetensors."
        )
    return _read_shards(directory, SAFETENSORS_FILE, _read_safetensors)


def write_safetensors(directory: Path, tensors: dict[str, npt.NDArray[Any]]) -> None:
    """Write one file that transformers reads."""
    # transformers refuses a file that does not name the library of its layout.
    # `save_file` restricts access to this user.
    with atomic_file(directory / SAFETENSORS_FILE) as partial:
        save_file(tensors, partial, metadata={"format": "pt"})


def _holds(directory: Path, name: str) -> bool:
    return any((directory / each).is_file() for each in (name, name + _INDEX))


def _read_shards(
    directory: Path, name: str, read_file: Callable[[Path], Tensors]
) -> Tensors:
    """Return the tensors of a file, or of the shards that its index names."""
    if (directory / name).is_file():
        return read_file(directory / name)
    index = directory / f"{name}{_INDEX}"
    weight_map: dict[str, str] = {}
    with reading(index):
        for tensor, shard in read_json(index)["weight_map"].items():
            weight_map[tensor] = check_shard_name(shard, index)
    tensors: Tensors = {}
    for shard in sorted(set(weight_map.values())):
        if not (directory / shard).is_file():
            raise ValueError(
                f"{index} names {shard}, which does not exist. Copy or download it as "
                "well."
            )
        found = read_file(directory / shard)
        if others := [tensor for tensor in found if weight_map.get(tensor) != shard]:
            raise ValueError(
                f"{directory / shard} contains tensors that {index.name} does not "
                f"list: {', '.join(others[:20])}. Copy or download the files again."
            )
        tensors |= found
    if absent := [tensor for tensor in weight_map if tensor not in tensors]:
        raise ValueError(
            f"{index} lists tensors that its shards do not contain: "
            f"{', '.join(absent[:20])}. Copy or download the files again."
        )
    return tensors


def _read_safetensors(path: Path) -> Tensors:
    with reading(path):
        with open(path, "rb") as header:
            length = int.from_bytes(header.read(8), "little")
            if length > _MAX_HEADER_BYTES:
                raise ValueError(f"its header claims {length:,} bytes")
            # Refuses a name that occurs twice.
            parse_json(header.read(length))
        # `safe_open` checks the shapes against the size of the file.
        # It stays open, mapped to memory, as long as its tensors are held.
        file = safe_open(path, framework="numpy")

        def tensor(name: str) -> npt.NDArray[Any]:
            with reading(path):
                return np.asarray(file.get_tensor(name))

        return {
            name: StoredTensor(
                tuple(file.get_slice(name).get_shape()), partial(tensor, name)
            )
            for name in file.keys()  # noqa: SIM118  (the file is no mapping)
        }


def _read_torch(path: Path) -> Tensors:
    """Read a pickle with PyTorch, which loads nothing but tensors from it."""
    if importlib.util.find_spec("torch") is None:
        raise ImportError(
            f"Reading {path} needs PyTorch, which cannot be imported. Install it: pip "
            'install "torch>=2.6"; or convert the file where it is installed: '
            "`save_pretrained` of transformers writes `model.safetensors`."
        )
    import torch  # noqa: PLC0415  (an optional package)

    size = path.stat().st_size
    with reading(path, _TORCH_REMEDY), ExitStack() as opened:
        file = opened.enter_context(open(path, "rb"))
        if file.read(4) == b"PK\3\4":
            held = _check_zip(file, size)
            found = torch.load(path, "cpu", weights_only=True, mmap=True)
        else:
            # A file allocates as many bytes as a pickle asks for; a map returns at
            # most what there is.
            access = mmap.ACCESS_READ
            mapped = opened.enter_context(mmap.mmap(file.fileno(), 0, access=access))
            for number in range(_STREAM_PROGRAMS):
                _check_pickle(mapped, size if number == 3 else None)
            held = size
            mapped.seek(0)
            found = torch.load(mapped, "cpu", weights_only=True)
        if not isinstance(found, dict):
            kind = type(found).__name__
            raise TypeError(f"it contains a {kind} instead of named tensors")
        storages: dict[int, int] = {}
        views: dict[Any, int] = {}
        for name, tensor in found.items():
            if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
                kind = type(tensor).__name__
                raise TypeError(f"it contains a {kind} instead of a tensor")
            storage, taken = tensor.untyped_storage(), tensor.nbytes
            if taken > storage.nbytes():
                raise ValueError("a tensor is larger than its storage")
            # Tied weights are one tensor under two names.
            storages[storage.data_ptr()] = storage.nbytes()
            views[tensor.data_ptr(), tensor.shape, tensor.stride()] = taken
        if sum(storages.values()) > held or sum(views.values()) > size:
            raise ValueError("its tensors need more bytes than it has")
    return {
        name: StoredTensor(tuple(tensor.shape), lambda x=tensor: _to_numpy(x))  # type: ignore[misc]
        for name, tensor in found.items()
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
            raise ValueError(
                f"it contains more than tensors, which could run code: {argument}"
            )
        if most is not None and isinstance(argument, int) and argument > most:
            raise ValueError(f"it has {most:,} bytes and claims {argument:,} numbers")


def _read_h5(path: Path) -> Tensors:
    """Return the tensors of a former TensorFlow class, by PyTorch's names."""

    # Source: `modeling_tf_pytorch_utils.py` of transformers 4.
    def read(place: str, turned: bool) -> npt.NDArray[Any]:
        with reading(path), h5py.File(path) as file:
            values = np.asarray(file[place])
        return values.T if turned else values

    arrays = named_arrays(path)
    tensors: Tensors = {}
    with reading(path):
        for place, array in arrays.items():
            # The group of a layer, then the variable's name, with the names of the
            # model and of the layer. A head also lists the embeddings, which it shares.
            group, _, layer, *rest = place.split("/")
            if layer == group:
                *scopes, kind = "/".join((layer, *rest)).removesuffix(":0").split("/")
                name = ".".join((*scopes, _H5_KINDS.get(kind, kind)))
                name = re.sub(r"^[^.]*___", "", name.replace("_._", "."))
                turned = kind == "kernel"
                shape = array.shape[::-1] if turned else array.shape
                tensors[name] = StoredTensor(shape, partial(read, place, turned))
    if _H5_USED in tensors:
        tensors[_H5_UNUSED] = tensors.pop(_H5_USED)
    return tensors
