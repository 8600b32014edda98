"""TensorFlow's checkpoint files as named arrays, without a graph or a session."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.utils.packages import import_package
from keras_albert.utils.reading import reading

Array = npt.NDArray[Any]


def find_checkpoint(directory: Path) -> Path | None:
    """Find the checkpoint of a directory.

    Args:
        directory: Path. The output of a training run, or a module of TF-Hub.

    Returns:
        The prefix of the checkpoint's files: `model.ckpt-best`, else the one with
        the highest number, else the only other one, else the variables of a module;
        `None` if there is none.
    """
    if (directory / "model.ckpt-best.index").is_file():
        return directory / "model.ckpt-best"
    steps = {
        int(found[1]): path.with_suffix("")
        for path in directory.glob("model.ckpt-*.index")
        if (found := re.fullmatch(r"model\.ckpt-(\d+)\.index", path.name))
    }
    if steps:
        return steps[max(steps)]
    others = list(directory.glob("*.ckpt.index"))
    if len(others) == 1:
        return others[0].with_suffix("")
    module = directory / "variables" / "variables"
    return module if module.with_suffix(".index").is_file() else None


def read_shapes(prefix: Path) -> dict[str, tuple[int, ...]]:
    """Read the names and shapes of a checkpoint's tensors.

    Args:
        prefix: Path. The common prefix of its files.

    Raises:
        ImportError: If TensorFlow is not installed.
        ValueError: If the index is missing or damaged, or claims more than the files
            contain.
    """
    with _reading(prefix) as reader:
        shapes = {
            name: tuple(shape)
            for name, shape in reader.get_variable_to_shape_map().items()
        }
        data = prefix.parent.glob(f"{prefix.name}.data-*")
        found = sum(path.stat().st_size for path in data)
        # An element of a tensor has at least one byte.
        if sum(map(prod, shapes.values())) > found:
            msg = f"its tensors need more bytes than its data files contain ({found:,})"
            raise ValueError(msg)
    return shapes


def read_tensors(prefix: Path, wanted: Callable[[str], bool]) -> dict[str, Array]:
    """Read the tensors of a checkpoint.

    Args:
        prefix: Path. The common prefix of its files.
        wanted: Callable of a tensor's name; returns whether to read it.

    Raises:
        ImportError: If TensorFlow is not installed.
        ValueError: See `read_shapes`.
    """
    names = [name for name in read_shapes(prefix) if wanted(name)]
    with _reading(prefix) as reader:
        return {name: np.asarray(reader.get_tensor(name)) for name in names}


def write_tensors(prefix: Path, tensors: Mapping[str, Array]) -> None:
    """Write a checkpoint that `tf.train.load_checkpoint` reads.

    Raises:
        ImportError: If TensorFlow is not installed.
    """
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
