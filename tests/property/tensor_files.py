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


def _drop(tensors, name):
    del tensors[name]


def _rename(tensors, name):
    tensors[f"{name}x"] = tensors.pop(name)


def _add(tensors, name):
    tensors["more"] = tensors[name]


def _change(how):
    def change(tensors, name):
        tensors[name] = how(tensors[name])

    change.__name__ = how.__name__
    return change


def longer(array):
    return np.concatenate([array, array])


def deeper(array):
    return array[None]


def empty(array):
    return array[:0]


def whole_numbers(array):
    return array.astype("int32")


def truths(array):
    return array > 0


def complex_numbers(array):
    return array.astype("complex64")


def not_a_number(array):
    return np.where(np.arange(array.size).reshape(array.shape) == 1, np.nan, array)


def infinite(array):
    return np.full_like(array, np.inf)


_CHANGES = (
    *(_drop, _rename, _add),
    *map(
        _change,
        (
            *(longer, deeper, empty, whole_numbers, truths, complex_numbers),
            *(not_a_number, infinite),
        ),
    ),
)


def change_tensors(draw, path):
    """Write a file again with a tensor that is missing, unknown or of another kind."""
    with _opened(path) as tensors:
        name = draw(st.sampled_from(sorted(tensors)))
        change = draw(st.sampled_from(_CHANGES))
        if change.__name__ == "complex_numbers" and path.suffix == ".safetensors":
            change = _drop
        change(tensors, name)
    return change.__name__.strip("_"), name


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
        from keras_albert.conversion.google import tensorflow_files

        prefix = path.with_suffix("")
        tensors = tensorflow_files.read_tensors(prefix, lambda name: True)
        yield tensors
        tensorflow_files.write_tensors(prefix, tensors)


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
