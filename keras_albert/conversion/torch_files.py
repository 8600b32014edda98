"""PyTorch's own weight files, read without running what is in them."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy.typing as npt

from keras_albert.conversion.safetensors_files import read_shards

SINGLE_FILE = "pytorch_model.bin"
INDEX_FILE = "pytorch_model.bin.index.json"

_REMEDY = (
    "Save the model with a present version of transformers (`save_pretrained`), which "
    "writes safetensors: numbers and no code."
)


def holds_torch_files(directory: Path) -> bool:
    """Say whether a directory holds pickled weights."""
    return any((directory / name).is_file() for name in (SINGLE_FILE, INDEX_FILE))


def read_torch_files(
    directory: Path, wanted: Callable[[str], bool] = lambda name: True
) -> dict[str, npt.NDArray[Any]]:
    """Read a checkpoint's tensors with PyTorch's weights-only loader.

    Args:
        directory: Path. Where `pytorch_model.bin` is, or the index of its shards.
        wanted: Callable of a tensor's name; whether to keep it. Defaults to all.

    Returns:
        NumPy arrays by name.

    Raises:
        ValueError: If PyTorch is not installed, or a file is damaged or holds
            anything but tensors.
    """
    if importlib.util.find_spec("torch") is None:
        msg = (
            f"The weights in {directory} are pickled (`{SINGLE_FILE}`), and only "
            "PyTorch's weights-only loader reads them without running the code that "
            f"may be in them. Install PyTorch, or: {_REMEDY}"
        )
        raise ValueError(msg)
    if (directory / SINGLE_FILE).is_file():
        return _read_file(directory / SINGLE_FILE, wanted)
    return read_shards(directory / INDEX_FILE, wanted, _read_file)


def _read_file(path: Path, wanted: Callable[[str], bool]) -> dict[str, Any]:
    import torch  # noqa: PLC0415  (never needed at import)

    try:
        found = torch.load(path, map_location="cpu", weights_only=True)
        return {
            name: tensor.float().numpy() if tensor.is_floating_point() else tensor
            for name, tensor in found.items()
            if wanted(name)
        }
    # Whatever a file can be made of: the loader has no error of its own.
    except Exception as error:
        size = f"{path.stat().st_size:,} bytes" if path.is_file() else "absent"
        msg = (
            f"{path} ({size}) is refused: it is damaged, or holds more than tensors, "
            f"which could run code ({type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else ''}). {_REMEDY}"
        )
        raise ValueError(msg) from error
