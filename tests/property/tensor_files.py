"""Files of tensors: where their numbers are, and the same with other tensors."""

import io
import json
from contextlib import contextmanager

import h5py
import numpy as np
import safetensors.numpy
from hypothesis import strategies as st

# The formats by the ends of their files' names; of TensorFlow's two files, the second
# is found by the first.
TENSOR_FILES = (".h5", ".safetensors", ".bin", ".index", ".data-00000-of-00001")


def number_ranges(path, content):
    """Give first and last places of the numbers that no checksum guards.

    TensorFlow's files and PyTorch's zip files have checksums.
    """
    if path.suffix not in (".h5", ".safetensors", ".bin") or content[:2] == b"PK":
        return []
    if path.suffix == ".safetensors":
        return [(8 + int.from_bytes(content[:8], "little"), len(content))]
    if path.suffix == ".h5":
        with h5py.File(io.BytesIO(content)) as file:
            entries = [file[name].id for name in _names(file)]
            sizes = [(x.get_offset(), x.get_storage_size()) for x in entries]
    else:
        arrays = [x.numpy().tobytes() for x in _torch_load(content).values()]
        sizes = [(content.index(numbers), len(numbers)) for numbers in arrays]
    return [(first, first + size) for first, size in sizes]


def read_header(content):
    """Give the header of a file of safetensors, and what follows it."""
    size = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:size]), content[size:]


def write_header(header):
    """Give the bytes of a header."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text


# What becomes of a tensor.
_CHANGES = {
    "longer": lambda array: np.concatenate([array, array]),
    "deeper": lambda array: array[None],
    "empty": lambda array: array[:0],
    "whole numbers": lambda array: array.astype("int32"),
    "truths": lambda array: array > 0,
    "complex numbers": lambda array: array.astype("complex64"),
    "not a number": lambda array: np.where(array == array.flat[-1], np.nan, array),
    "infinite": lambda array: np.full_like(array, np.inf),
}


def change_tensors(draw, path):
    """Write a file again with a tensor that is missing, unknown or of another kind."""
    with _opened(path) as tensors:
        name = draw(st.sampled_from(sorted(tensors)))
        change = draw(st.sampled_from(["drop", "rename", "add", *_CHANGES]))
        if change == "complex numbers" and path.suffix == ".safetensors":
            change = "drop"
        tensor = tensors[name] if change == "add" else tensors.pop(name)
        if change in ("rename", "add"):
            tensors[f"{name}x"] = tensor
        elif change != "drop":
            tensors[name] = _CHANGES[change](tensor)
    return change, name


@contextmanager
def _opened(path):
    """Give the tensors of a file, which is written with what they are at the end."""
    if path.suffix == ".h5":
        tensors = _read_h5(path)
        before = dict(tensors)
        yield tensors
        _write_h5(path, before, tensors)
    elif path.suffix == ".safetensors":
        tensors = safetensors.numpy.load(path.read_bytes())
        yield tensors
        safetensors.numpy.save_file(tensors, path, metadata={"format": "pt"})
    elif path.suffix == ".bin":
        content = path.read_bytes()
        tensors = {name: x.numpy() for name, x in _torch_load(content).items()}
        yield tensors
        write_torch(path, tensors, is_zip=content[:2] == b"PK")
    else:
        from keras_albert.checkpoints import google

        prefix = path.with_suffix("")
        stored = google.stored_tensors(prefix)
        tensors = {name: tensor.read() for name, tensor in stored.items()}
        yield tensors
        google.write_tensors(prefix, tensors)


def write_torch(path, tensors, is_zip):
    """Write a file as PyTorch does, or did before 1.6."""
    import torch

    state = {name: torch.from_numpy(np.array(x)) for name, x in tensors.items()}
    torch.save(state, path, _use_new_zipfile_serialization=is_zip)


def _torch_load(content):
    import torch

    return torch.load(io.BytesIO(content), weights_only=True)


def _names(file):
    names = []

    def note(name, entry):
        # Not the states of optimizers and of random generators.
        is_state = name.startswith("optimizer/")
        if isinstance(entry, h5py.Dataset) and not is_state and entry.dtype != "uint32":
            names.append(name)

    file.visititems(note)
    return names


def _read_h5(path):
    with h5py.File(path) as file:
        return {name: file[name][()] for name in _names(file)}


def _write_h5(path, before, tensors):
    with h5py.File(path, "r+") as file:
        for name, array in before.items():
            if tensors.get(name) is not array:
                del file[name]
        for name, array in tensors.items():
            if before.get(name) is not array:
                file[name] = array
