"""The weights of transformers' former TensorFlow classes, by PyTorch's names.

Source: `modeling_tf_pytorch_utils.py` of transformers 4.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.conversion.weight_files import StoredTensor
from keras_albert.presets.stored_weights import named_arrays
from keras_albert.utils.reading import reading

FILE = "tf_model.h5"

_KINDS = {
    "kernel": "weight",
    "gamma": "weight",
    "embeddings": "weight",
    "beta": "bias",
}

# ALBERT's class has both, and computes with the second.
_UNUSED, _USED = "predictions.bias", "predictions.decoder.bias"


def h5_tensors(directory: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a checkpoint's `tf_model.h5`."""
    path = directory / FILE
    arrays = named_arrays(path)
    tensors: dict[str, StoredTensor] = {}
    with reading(path):
        for place, array in arrays.items():
            # The group of a layer, then the variable's name, with those of the model
            # and of the layer. A head also lists the embeddings, which it shares.
            group, _, layer, *rest = place.split("/")
            if layer == group:
                *scopes, kind = "/".join((layer, *rest)).removesuffix(":0").split("/")
                name = ".".join((*scopes, _KINDS.get(kind, kind)))
                name = re.sub(r"^[^.]*___", "", name.replace("_._", "."))
                turned = kind == "kernel"
                shape = array.shape[::-1] if turned else array.shape
                tensors[name] = StoredTensor(shape, _reader(path, place, turned))
    if _USED in tensors:
        tensors[_UNUSED] = tensors.pop(_USED)
    return tensors


def _reader(path: Path, place: str, turned: bool) -> Callable[[], npt.NDArray[Any]]:
    import h5py  # noqa: PLC0415  (comes with Keras; rarely needed at import)

    def read() -> npt.NDArray[Any]:
        with reading(path), h5py.File(path) as file:
            values = np.asarray(file[place])
        return values.T if turned else values

    return read
