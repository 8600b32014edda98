"""PyTorch's pickled weight files, read without PyTorch and without unpickling.

A pickle is a program, which could do anything; here it only refers to the places of the
numbers. The few instructions that describe tensors are interpreted, and a file with any
other instruction is refused.

Source: `torch/serialization.py` of [PyTorch](https://github.com/pytorch/pytorch); the
format with one stream is that of PyTorch before 1.6, which the first released
checkpoints use.
"""

import mmap
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_albert.conversion.transformers.tensor_program import (
    ProgramTensor,
    Storage,
    run_tensor_program,
)
from keras_albert.conversion.weight_files import StoredTensor, stored_tensors
from keras_albert.utils.reading import reading

SINGLE_FILE = "pytorch_model.bin"
INDEX_FILE = "pytorch_model.bin.index.json"

_REMEDY = (
    "Copy or download it again; or save the model with a current version of "
    "transformers (`save_pretrained`), which writes safetensors."
)
_STREAM_MAGIC = 0x1950A86A20F9469CFC6C
_STREAM_VERSION = 1001
_LONGEST_PROGRAM = 2**22


class _Place(NamedTuple):
    """The location of a storage's bytes."""

    size: int
    read: Callable[[], bytes]


def holds_torch_files(directory: Path) -> bool:
    """Return whether a directory contains pickled weights."""
    return any((directory / name).is_file() for name in (SINGLE_FILE, INDEX_FILE))


def torch_tensors(directory: Path) -> dict[str, StoredTensor]:
    """Return a checkpoint's tensors."""
    return stored_tensors(directory / SINGLE_FILE, directory / INDEX_FILE, _read_file)


def _read_file(path: Path) -> dict[str, StoredTensor]:
    with reading(path, _REMEDY):
        with open(path, "rb") as file:
            is_zip = file.read(4) == b"PK\3\4"
            file.seek(0)
            if is_zip:
                found, places, order = _from_zip(path, file)
            else:
                # A file allocates as many bytes as are asked for, which the program
                # claims; a map returns at most what there is.
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
                    found, places, order = _from_stream(path, mapped)
        if not isinstance(found, dict):
            raise TypeError(
                f"it contains a {type(found).__name__} instead of named tensors"
            )
        tensors = {name: _stored(path, x, places, order) for name, x in found.items()}
        # Tied weights are one tensor under two names.
        views = {x: x.size * x.storage.dtype.itemsize for x in found.values()}
        if sum(views.values()) > path.stat().st_size:
            raise ValueError("its tensors need more bytes than it has")
        return tensors


def _from_zip(path: Path, file: IO[bytes]) -> tuple[Any, dict[str, _Place], str]:
    size = path.stat().st_size
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        names = {member.filename: member for member in members}
        # PyTorch does not compress, so a compressed file is suspicious.
        if any(x.compress_type != zipfile.ZIP_STORED for x in members):
            raise ValueError("its members are compressed")
        if sum(x.file_size for x in members) > size or len(names) < len(members):
            raise ValueError("its members overlap")
        (program,) = (name for name in names if name.endswith("/data.pkl"))
        if names[program].file_size > _LONGEST_PROGRAM:
            raise ValueError(f"{program} is too long")
        folder = program.removesuffix("data.pkl")
        order = "little"
        if f"{folder}byteorder" in names:
            order = archive.read(f"{folder}byteorder").decode()
        with archive.open(program) as pickled:
            found = run_tensor_program(pickled)

    def reader(name: str) -> Callable[[], bytes]:
        def read() -> bytes:
            with reading(path, _REMEDY), zipfile.ZipFile(path) as archive:
                return archive.read(name)

        return read

    data = f"{folder}data/"
    places = {
        name.removeprefix(data): _Place(names[name].file_size, reader(name))
        for name in names
        if name.startswith(data)
    }
    return found, places, order


def _from_stream(path: Path, file: Any) -> tuple[Any, dict[str, _Place], str]:
    if run_tensor_program(file) != _STREAM_MAGIC:
        raise ValueError("it does not begin as PyTorch's files do")
    if run_tensor_program(file) != _STREAM_VERSION:
        raise ValueError("it is of an unknown version")
    order = "little" if run_tensor_program(file)["little_endian"] else "big"
    storages: dict[str, Storage] = {}
    found = run_tensor_program(file, storages)

    def reader(start: int, size: int) -> Callable[[], bytes]:
        def read() -> bytes:
            with reading(path, _REMEDY), open(path, "rb") as again:
                again.seek(start)
                return again.read(size)

        return read

    places: dict[str, _Place] = {}
    for key in run_tensor_program(file):
        elements = int.from_bytes(file.read(8), "little")
        size = elements * storages[key].dtype.itemsize
        places[key] = _Place(size, reader(file.tell(), size))
        if file.tell() + size > path.stat().st_size:
            raise ValueError("it is truncated")
        file.seek(size, 1)
    return found, places, order


def _stored(
    path: Path, tensor: Any, places: dict[str, _Place], order: str
) -> StoredTensor:
    """Check a program's description of a tensor against the stored bytes."""
    if not isinstance(tensor, ProgramTensor):
        raise TypeError(f"it contains a {type(tensor).__name__} instead of a tensor")
    storage = tensor.storage
    place = places[storage.key]
    if place.size != storage.elements * storage.dtype.itemsize:
        raise ValueError("a tensor needs more bytes than its storage has")
    tensor.check()

    def read() -> npt.NDArray[Any]:
        dtype = storage.dtype.newbyteorder("<" if order == "little" else ">")
        with reading(path, _REMEDY):
            values = np.frombuffer(place.read(), dtype)[tensor.offset :]
            strides = [step * dtype.itemsize for step in tensor.strides]
            view = np.lib.stride_tricks.as_strided(
                values, tensor.shape, strides, writeable=False
            )
            if storage.is_bfloat16:
                return (view.astype("uint32") << 16).view("float32")
            return view.astype(storage.dtype)

    return StoredTensor(tensor.shape, read)
