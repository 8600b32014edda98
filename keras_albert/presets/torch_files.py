"""PyTorch's pickles of tensors, from which PyTorch loads nothing else."""

import mmap
import pickletools
import zipfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy.typing as npt

from keras_albert.presets.weight_files import StoredTensor, kind
from keras_albert.utils.reading import reading

_REMEDY = (
    "Copy or download it again; or save the model with a current version of "
    "transformers (`save_pretrained`), which writes safetensors."
)
# All that a pickle of tensors names.
_NAMES = {
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


def open_torch(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a pickle, after a check of its program and sizes."""
    try:
        import torch  # noqa: PLC0415  (an optional package)
    except ImportError as error:
        raise ImportError(
            f"Reading {path} needs PyTorch, which cannot be imported. Install it: pip "
            'install "torch>=2.6"; or convert the file where it is installed: '
            "`save_pretrained` of transformers writes `model.safetensors`."
        ) from error
    size = path.stat().st_size
    with reading(path, _REMEDY), ExitStack() as opened:
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
        if not isinstance(found, dict):
            raise TypeError(f"it contains a {type(found).__name__}, not named tensors")
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
        if opcode.name == "GLOBAL" and argument not in _NAMES:
            raise ValueError(
                f"it contains more than tensors, which could run code: {argument}"
            )
        if most is not None and isinstance(argument, int) and argument > most:
            raise ValueError(f"it has {most:,} bytes and claims {argument:,} numbers")
