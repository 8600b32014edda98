"""transformers' weight files as tensors by their present names."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy.typing as npt
from safetensors.numpy import save_file

from keras_albert.presets.weight_files import StoredTensor, open_weights
from keras_albert.utils.atomic_files import atomic_file
from keras_albert.utils.reading import reading

SAFETENSORS_FILE = "model.safetensors"
TORCH_FILE = "pytorch_model.bin"
H5_FILE = "tf_model.h5"
_INDEX = ".index.json"

# TensorFlow's kinds of weights, and PyTorch's.
_H5_KINDS = {
    "kernel": "weight",
    "gamma": "weight",
    "embeddings": "weight",
    "beta": "bias",
}
# TensorFlow's ALBERT has both, and computes with the second.
_H5_UNUSED, _H5_USED = "predictions.bias", "predictions.decoder.bias"


def stored_weights(directory: Path) -> dict[str, StoredTensor]:
    """Return a checkpoint's tensors by their present names; `{}` without files."""
    if any(directory.glob("*.safetensors*")):
        path = _find(directory, SAFETENSORS_FILE)
        if path is None:
            raise missing_weights(directory)
    else:
        path = _find(directory, TORCH_FILE) or _find(directory, H5_FILE)
    if path is None:
        return {}
    found = open_weights(path)
    if path.name == H5_FILE:
        with reading(path):
            found = _rename_h5(found)
    # The former names of a normalization's weights.
    return {
        re.sub(r"(?<=\.LayerNorm\.)(gamma|beta)$", lambda x: _H5_KINDS[x[0]], name): x
        for name, x in found.items()
    }


def missing_weights(directory: Path) -> ValueError:
    """Return the error about a checkpoint without weights."""
    return ValueError(
        f"{directory} contains neither `{SAFETENSORS_FILE}` nor "
        f"`{SAFETENSORS_FILE}{_INDEX}`. Save the model with `save_pretrained` of "
        "transformers, which writes safetensors."
    )


def _find(directory: Path, name: str) -> Path | None:
    paths = (directory / each for each in (name, name + _INDEX))
    return next((path for path in paths if path.is_file()), None)


def write_safetensors(directory: Path, tensors: dict[str, npt.NDArray[Any]]) -> None:
    """Write one file that transformers reads."""
    # transformers refuses a file that does not name the library of its layout.
    # `save_file` restricts access to this user.
    with atomic_file(directory / SAFETENSORS_FILE) as partial:
        save_file(tensors, partial, metadata={"format": "pt"})


def _rename_h5(arrays: dict[str, StoredTensor]) -> dict[str, StoredTensor]:
    """Return the tensors of a former TensorFlow class, by PyTorch's names."""
    # Source: `modeling_tf_pytorch_utils.py` of transformers 4.
    tensors: dict[str, StoredTensor] = {}
    for place, array in arrays.items():
        # The group of a layer, then the variable's name, with the names of the model
        # and of the layer. A head also lists the embeddings, which it shares.
        group, _, layer, *rest = place.split("/")
        if layer == group:
            *scopes, kind = "/".join((layer, *rest)).removesuffix(":0").split("/")
            name = ".".join((*scopes, _H5_KINDS.get(kind, kind)))
            name = re.sub(r"^[^.]*___", "", name.replace("_._", "."))
            tensors[name] = _transposed(array) if kind == "kernel" else array
    if _H5_USED in tensors:
        tensors[_H5_UNUSED] = tensors.pop(_H5_USED)
    return tensors


def _transposed(tensor: StoredTensor) -> StoredTensor:
    def read(original: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        return original().T

    return tensor._replace(shape=tensor.shape[::-1], read=partial(read, tensor.read))
