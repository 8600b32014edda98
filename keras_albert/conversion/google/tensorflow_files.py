"""TensorFlow's checkpoint files as named arrays, without a graph or a session."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_albert.conversion.google.model_garden import (
    OBJECT_GRAPH,
    google_names,
    google_shape,
)
from keras_albert.utils.environment import import_package
from keras_albert.utils.reading import reading

Array = npt.NDArray[Any]


class StoredTensor(NamedTuple):
    """A tensor of a checkpoint.

    Attributes:
        key: string. Its name in the file.
        stored_shape: Tuple of int. Its shape there.
        shape: Tuple of int. Its shape in google-research.
    """

    key: str
    stored_shape: tuple[int, ...]
    shape: tuple[int, ...]


def find_checkpoint(directory: Path) -> Path | None:
    """Find the checkpoint of a directory."""
    if (directory / "model.ckpt-best.index").is_file():
        return directory / "model.ckpt-best"
    found = [
        (each[1], int(each[2]), path.with_suffix(""))
        for path in directory.glob("*ckpt-*.index")
        if (each := re.fullmatch(r"(.*\bckpt)-(\d+)\.index", path.name))
    ]
    if len({name for name, *_ in found}) == 1:
        return max(found)[-1]
    others = list(directory.glob("*.ckpt.index"))
    if len(others) == 1:
        return others[0].with_suffix("")
    module = directory / "variables" / "variables"
    return module if module.with_suffix(".index").is_file() else None


def find_tensors(prefix: Path) -> dict[str, StoredTensor]:
    """Find the tensors of a checkpoint."""
    with _reading(prefix) as reader:
        shapes = {
            key: tuple(shape)
            for key, shape in reader.get_variable_to_shape_map().items()
        }
        data = prefix.parent.glob(f"{prefix.name}.data-*")
        found = sum(path.stat().st_size for path in data)
        # An element of a tensor has at least one byte.
        if sum(map(prod, shapes.values())) > found:
            msg = f"its tensors need more bytes than its data files contain ({found:,})"
            raise ValueError(msg)
        if OBJECT_GRAPH not in shapes:
            return {key: StoredTensor(key, each, each) for key, each in shapes.items()}
        names = google_names(reader.get_tensor(OBJECT_GRAPH), shapes)
    return {
        name: StoredTensor(key, shapes[key], google_shape(name, shapes[key]))
        for key, name in names.items()
    }


def read_tensors(prefix: Path, wanted: Callable[[str], bool]) -> dict[str, Array]:
    """Read the tensors of a checkpoint."""
    found = find_tensors(prefix)
    with _reading(prefix) as reader:
        return {
            name: np.reshape(reader.get_tensor(tensor.key), tensor.shape)
            for name, tensor in found.items()
            if wanted(name)
        }


def read_scalar(prefix: Path, key: str) -> Any:
    """Return a single value of a checkpoint; `None` if there is none of that name."""
    with _reading(prefix) as reader:
        if reader.get_variable_to_shape_map().get(key) != []:
            return None
        return reader.get_tensor(key)


def write_tensors(prefix: Path, tensors: Mapping[str, Array]) -> None:
    """Write a checkpoint that `tf.train.load_checkpoint` reads."""
    tf = _tensorflow()
    names = sorted(tensors)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=[tf.constant(tensors[name]) for name in names],
    )
    # Marks the latest checkpoint of the directory.
    state = f'model_checkpoint_path: "{prefix.name}"\n'
    (prefix.parent / "checkpoint").write_text(state, encoding="utf-8")


def _tensorflow() -> Any:
    # TensorFlow is needed on any Keras backend.
    what = "A checkpoint of google-research/albert"
    return import_package(what, "tensorflow", "tensorflow")


@contextmanager
def _reading(prefix: Path) -> Iterator[Any]:
    tf = _tensorflow()
    remedy = (
        f"Copy or download `{prefix.name}.index` and `{prefix.name}.data-...` again."
    )
    with reading(f"{prefix}.index", remedy):
        yield tf.train.load_checkpoint(str(prefix))
