"""TensorFlow's checkpoint files by plain names, without a graph or a session."""

import re
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.presets.needed_packages import check_packages

Array = npt.NDArray[Any]


def find_checkpoint(directory: Path) -> Path | None:
    """Find the checkpoint of a directory.

    Args:
        directory: Path. What a training wrote, or a module of TF-Hub.

    Returns:
        The prefix of the checkpoint's files: `model.ckpt-best`, else the one with
        the highest number, else the variables of a module; `None` if there is none.
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
    module = directory / "variables" / "variables"
    return module if module.with_suffix(".index").is_file() else None


def read_shapes(prefix: Path) -> dict[str, tuple[int, ...]]:
    """Read the names and shapes of a checkpoint's tensors.

    Args:
        prefix: Path. What its files' names begin with.

    Returns:
        Shapes by name.

    Raises:
        ImportError: If TensorFlow is not installed.
        ValueError: If the index is missing or damaged.
    """
    shapes = _reading(prefix, lambda reader: reader.get_variable_to_shape_map())
    return {name: tuple(shape) for name, shape in shapes.items()}


def read_tensors(prefix: Path, wanted: Callable[[str], bool]) -> dict[str, Array]:
    """Read the tensors of a checkpoint.

    Args:
        prefix: Path. What its files' names begin with.
        wanted: Callable of a tensor's name; whether to read it.

    Returns:
        Arrays by name.

    Raises:
        ImportError: If TensorFlow is not installed.
        ValueError: If a file is missing or damaged, or the index claims more than
            the files hold.
    """
    shapes = {name: s for name, s in read_shapes(prefix).items() if wanted(name)}
    data = prefix.parent.glob(f"{prefix.name}.data-*")
    held = sum(path.stat().st_size for path in data)
    # No tensor that we read is of half a byte or of strings.
    if sum(map(prod, shapes.values())) > held:
        raise ValueError(_damaged(prefix, f"its data are {held:,} bytes in all"))
    tensors: dict[str, Array] = _reading(
        prefix,
        lambda reader: {name: np.asarray(reader.get_tensor(name)) for name in shapes},
    )
    return tensors


def write_tensors(prefix: Path, tensors: Mapping[str, Array]) -> None:
    """Write a checkpoint that `tf.train.load_checkpoint` reads.

    Args:
        prefix: Path. What its files' names are to begin with.
        tensors: Arrays by name.

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
    # Which checkpoint is the latest, for who asks the directory.
    state = f'model_checkpoint_path: "{prefix.name}"\n'
    (prefix.parent / "checkpoint").write_text(state, encoding="utf-8")


def _tensorflow() -> Any:
    # The backend of Keras may be any.
    check_packages("A checkpoint of google-research/albert", "tensorflow", "tensorflow")
    import tensorflow as tf  # noqa: PLC0415  (slow, and only needed here)

    return tf


def _reading(prefix: Path, read: Callable[[Any], Any]) -> Any:
    tf = _tensorflow()
    try:
        return read(tf.train.load_checkpoint(str(prefix)))
    except (tf.errors.OpError, RuntimeError, ValueError, MemoryError) as error:
        raise ValueError(_damaged(prefix, str(error))) from error


def _damaged(prefix: Path, why: str) -> str:
    return (
        f"The checkpoint {prefix} is missing, damaged or truncated ({why}). Copy or "
        f"download its files again: `{prefix.name}.index` and `{prefix.name}.data-...`."
    )
