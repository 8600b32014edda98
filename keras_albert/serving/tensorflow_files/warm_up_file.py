"""Reading the warm-up requests that a server runs before it accepts others."""

import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt
from google.protobuf.message import DecodeError

from keras_albert.serving.tensorflow_files.messages import PredictionLog
from keras_albert.serving.tensorflow_files.tensors import read_tensor

# In `assets.extra`, under the name required by TensorFlow Serving.
WARM_UP_FILE = "tf_serving_warmup_requests"

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


def read_warm_up(path: Path) -> list[WarmUpRequest]:
    """Read a file of warm-up requests, without TensorFlow.

    Source: [TFRecord](https://www.tensorflow.org/tutorials/load_data/tfrecord): the
    length of a record, its checksum, the record, its checksum.
    """
    contents, at = path.read_bytes(), 0
    requests: list[WarmUpRequest] = []
    try:
        while at < len(contents):
            (size,) = struct.unpack_from("<Q", contents, at)
            (record,) = struct.unpack_from(f"<{size}s4x", contents, at + 12)
            requests.append(_read_request(record))
            at += size + 16
    except (struct.error, DecodeError, ValueError) as error:
        msg = (
            f"{path} ({len(contents):,} bytes) is damaged or truncated after "
            f"{len(requests)} records. Copy or export it again."
        )
        raise ValueError(msg) from error
    return requests


def _read_request(record: bytes) -> WarmUpRequest:
    log = PredictionLog.FromString(record).predict_log
    inputs, outputs = (
        {entry.key: read_tensor(entry.value) for entry in entries}
        for entries in (log.request.inputs, log.response.outputs)
    )
    return WarmUpRequest(log.request.model_spec.signature_name, inputs, outputs)
