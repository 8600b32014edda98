"""The warm-up requests that a server runs before it accepts others."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_albert.serving.tensorflow_files.messages import PredictionLog
from keras_albert.serving.tensorflow_files.tensors import read_tensor, write_tensor
from keras_albert.serving.tensorflow_files.tfrecord import read_records, write_records
from keras_albert.text.packing.pack import SpecialIds

# In `assets.extra`, under the name required by TensorFlow Serving.
WARM_UP_FILE = "tf_serving_warmup_requests"

_SHORT = b"A short text, with a [MASK] in it."
_WORDS = len(_SHORT.split())

Arrays = dict[str, npt.NDArray[Any]]


class WarmUpRequest(NamedTuple):
    """A request and its response.

    Attributes:
        signature: string. The name of the signature.
        inputs: dict of names and arrays; strings are object arrays of bytes.
        outputs: dict of names and arrays, as computed by TensorFlow during the export.
    """

    signature: str
    inputs: Arrays
    outputs: Arrays


def write_warm_up(
    path: Path, signatures: Mapping[str, Any], max_length: int, special: SpecialIds
) -> None:
    """Run each signature on two short texts and a long one, and write the requests.

    Source: [SavedModel warm-up](https://www.tensorflow.org/tfx/serving/saved_model_warmup).

    Args:
        path: Path. The file.
        signatures: TensorFlow functions by name.
        max_length: int. Maximum number of tokens in a row.
        special: `SpecialIds`.
    """
    write_records(path, _ask(signatures, max_length, special))


def read_warm_up(path: Path) -> list[WarmUpRequest]:
    """Read a file of warm-up requests.

    Args:
        path: Path. The file.

    Returns:
        The requests.

    Raises:
        ValueError: If the file is damaged.
    """
    logs = [PredictionLog.FromString(record) for record in read_records(path)]
    return [
        WarmUpRequest(
            log.predict_log.request.model_spec.signature_name,
            _read(log.predict_log.request.inputs),
            _read(log.predict_log.response.outputs),
        )
        for log in logs
    ]


def _ask(
    signatures: Mapping[str, Any], max_length: int, special: SpecialIds
) -> Iterator[bytes]:
    for name, function in signatures.items():
        for rows, length in ((2, 8), (1, max_length)):
            inputs = {
                spec.name: _make_input(spec, rows, min(length, max_length), special)
                for spec in function.input_signature
            }
            log = PredictionLog()
            request = log.predict_log.request
            request.model_spec.signature_name = name
            _write(request.inputs, inputs)
            outputs = _call(function, inputs)
            _write(log.predict_log.response.outputs, outputs)
            yield log.SerializeToString()


def _make_input(spec: Any, rows: int, length: int, special: SpecialIds) -> Any:
    """Fill an input tensor; an axis of choices has size two."""
    rank = spec.shape.rank
    if spec.dtype.name == "string":
        # A word has at least one token, so that the long text fills a row.
        text = _SHORT if rows > 1 else b" ".join([_SHORT] * (1 + length // _WORDS))
        return np.full((rows, 2)[:rank], text, object)
    row = np.ones(length, np.int32)
    if spec.name == "token_ids":
        row[0], row[-1] = special.cls, special.sep
    elif spec.name == "segment_ids":
        row[:] = 0
    return np.tile(row, (rows, *[2] * (rank - 2), 1))


def _call(function: Callable[..., dict[str, Any]], inputs: Arrays) -> Arrays:
    return {name: np.asarray(value) for name, value in function(**inputs).items()}


def _write(entries: Any, arrays: Arrays) -> None:
    for name, array in arrays.items():
        entries.add(key=name, value=write_tensor(array))


def _read(entries: Any) -> Arrays:
    return {entry.key: read_tensor(entry.value) for entry in entries}
