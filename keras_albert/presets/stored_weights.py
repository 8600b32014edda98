"""Keras' weight files of a model, compared with it before anything is loaded."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_albert.presets.preset_files import INDEX_FILE, WEIGHTS_FILE
from keras_albert.presets.weight_files import Shape, files_of, kind, open_weights

# The shape of an array and its type, "float" for any floating point type.
_Array = tuple[Shape, str]


def weights_path(directory: Path) -> Path:
    """Return the path of a preset's weights."""
    for name in (WEIGHTS_FILE, INDEX_FILE):
        if (directory / name).is_file():
            return directory / name
    raise ValueError(
        f"{directory} contains neither `{WEIGHTS_FILE}` nor `{INDEX_FILE}`. Copy or "
        "download the preset again. For random weights, pass `load_weights=False`."
    )


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
            f"{path} does not contain the weights of the model that its config "
            f"describes. Only in the file: {_listed(stored - built)}. Only in the "
            f"model: {_listed(built - stored)}. Nothing was loaded. Use files that "
            "belong together, and leave out arguments that change shapes."
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
                    "or download it again; if it was already so when it was saved, use "
                    "an earlier checkpoint and a lower learning rate."
                )


def _listed(arrays: Counter[_Array], most: int = 20) -> str:
    """Format arrays as `float (2, 3)` or `int8 (2, 3) x 4`."""
    listed = [
        f"{name} {shape}" + (f" x {count}" if count > 1 else "")
        for (shape, name), count in arrays.items()
    ]
    more = [f"and {len(listed) - most} more"] if len(listed) > most else []
    return ", ".join(listed[:most] + more) or "nothing"
