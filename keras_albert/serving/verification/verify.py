"""Checking that a server can load an export and reproduces its predictions."""

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_albert.serving.saved_model.export import served_versions
from keras_albert.serving.tensorflow_files.saved_model_file import (
    SavedModelFile,
    Signature,
)
from keras_albert.serving.tensorflow_files.warm_up_file import (
    WARM_UP_FILE,
    Arrays,
    WarmUpRequest,
    read_warm_up,
)
from keras_albert.serving.verification.run_saved_model import run_saved_model
from keras_albert.serving.verification.stock_operations import unknown_operations
from keras_albert.utils.reading import local_path

# The names of dtypes and of value fields in the JSON form of protocol buffers.
_FIELDS = {
    "object": ("DT_STRING", "string_val"),
    "int32": ("DT_INT32", "int_val"),
    "float32": ("DT_FLOAT", "float_val"),
}

# Between two versions of TensorFlow, float32 results differ by 1e-6, and int8 results
# by 0.02 where a number is rounded differently.
_TOLERANCE = 0.05


class VerifiedModel(NamedTuple):
    """A verified export.

    Attributes:
        directory: Path. The version that was loaded.
        signatures: dict of names and `Signature`: inputs and outputs, each with dtype
            and shape.
        operations: frozenset of string. All operations of the graph.
        requests: int. The number of replayed requests.
        largest_difference: float. The largest difference between a returned number and
            its value when the export was written.
        rest: dict of string. A request to the REST interface for each signature.
        grpc: dict of string. A request to the gRPC interface for each signature.
    """

    directory: Path
    signatures: dict[str, Signature]
    operations: frozenset[str]
    requests: int
    largest_difference: float
    rest: dict[str, str]
    grpc: dict[str, str]


def verify(
    directory: str | os.PathLike[str], python: str | os.PathLike[str] | None = None
) -> VerifiedModel:
    """Load an export as TensorFlow Serving does, and replay its warm-up requests.

    This proves three things:

    - TensorFlow's session, which a server runs, too, loads the graph and its weights
      without Python code of the exporting packages: in a new process, which imports
      TensorFlow but neither this package nor tensorflow-text; of the latter it loads
      the libraries of operations.
    - All operations of the graph are in a stock server: TensorFlow's own and those of
      tensorflow-text, except calls into Python and of XLA.
    - The requests of the warm-up file have the same results as when it was written.

    Args:
        directory: string or path. The path that `export` returned, or the directory of
            the versions; then the highest version is used, as in a server.
        python: string or path. An interpreter whose TensorFlow loads the export, for
            example one of another version. Defaults to `None`, the current one.

    Returns:
        `VerifiedModel`.

    Raises:
        ImportError: If TensorFlow or tensorflow-text is not installed.
        ValueError: If the directory is not an export, or is damaged or cannot be
            served.

    Example:
        >>> from keras_albert.serving import verify
        >>> verified = verify("served/films")  # doctest: +SKIP
        >>> sorted(verified.signatures)  # doctest: +SKIP
        ['serve_document', 'serve_pair', 'serve_tokens', 'serving_default']
    """
    version = _find_version(local_path(directory))
    model = SavedModelFile(version)
    requests = _read_requests(version, model)
    asked = [(model.signatures[r.signature], r.inputs) for r in requests]
    served = run_saved_model(version, asked, python)
    unknown = unknown_operations(model.operations, served.operations)
    if unknown:
        msg = (
            f"{version} has operations that a stock TensorFlow Serving lacks: "
            f"{', '.join(unknown)}. Export it with this package from the task."
        )
        raise ValueError(msg)
    differences = [0.0]
    for request, answer in zip(requests, served.answers, strict=True):
        if isinstance(answer, str):
            msg = f"{version} cannot run {request.signature}: {answer}"
            raise ValueError(msg)
        differences += _differences(request.outputs, answer)
    largest = max(differences)
    if not largest <= _TOLERANCE:
        msg = (
            f"{version} returns other results than when it was written: they differ by "
            f"{largest:.3g}. Its files do not belong together; copy or export it again."
        )
        raise ValueError(msg)
    name = version.parent.name
    short: dict[str, WarmUpRequest] = {}
    for request in requests:
        # Short requests precede long ones.
        short.setdefault(request.signature, request)
    return VerifiedModel(
        directory=version,
        signatures=model.signatures,
        operations=model.operations,
        requests=len(requests),
        largest_difference=largest,
        rest={key: _rest_example(key, r.inputs) for key, r in short.items()},
        grpc={key: _grpc_example(key, r.inputs, name) for key, r in short.items()},
    )


def _find_version(path: Path) -> Path:
    if not path.is_dir():
        msg = f"There is no directory {path}. Pass the path that `export` returned."
        raise ValueError(msg)
    path = path.absolute()
    if (path / "saved_model.pb").exists():
        return path
    return [path, *served_versions(path).values()][-1]


def _read_requests(version: Path, model: SavedModelFile) -> list[WarmUpRequest]:
    path = version / "assets.extra" / WARM_UP_FILE
    # The file is optional, and exports of other programs may lack it.
    requests = read_warm_up(path) if path.exists() else []
    for request in requests:
        signature = model.signatures.get(request.signature)
        if signature is None or set(signature.inputs) != set(request.inputs):
            msg = (
                f"{path} asks for {request.signature!r} with {sorted(request.inputs)}, "
                "and the graph has no such signature. They are of two exports; export "
                "it again."
            )
            raise ValueError(msg)
    return requests


def _differences(expected: Arrays, found: Arrays) -> list[float]:
    return [
        float(np.abs(array - found[name]).max(initial=0.0))
        for name, array in expected.items()
        if array.dtype.kind == "f" and array.shape == found[name].shape
    ]


def _rest_example(signature: str, inputs: Mapping[str, Any]) -> str:
    """Return the JSON for `POST /v1/models/NAME:predict`, with one row."""
    if not all(array.ndim for array in inputs.values()):
        # A number of all rows is in none of them, but beside the columns.
        columns = {name: _to_text(_first_row(x)) for name, x in inputs.items()}
        return json.dumps({"signature_name": signature, "inputs": columns})
    row = {name: _to_text(array[0]) for name, array in inputs.items()}
    return json.dumps({"signature_name": signature, "instances": [row]})


def _first_row(array: Any) -> Any:
    """Return an array with only its first row; a scalar has no rows."""
    return array[:1] if array.ndim else array


def _grpc_example(signature: str, inputs: Mapping[str, Any], model: str) -> str:
    """Return a `PredictRequest` in JSON, with one row and strings in base64."""
    tensors = {}
    for name, array in inputs.items():
        dtype, field = _FIELDS[array.dtype.name]
        row = _first_row(array)
        values = np.ravel(row).tolist()
        tensors[name] = {
            "dtype": dtype,
            "tensor_shape": {"dim": [{"size": size} for size in row.shape]},
            field: [
                base64.b64encode(value).decode() if isinstance(value, bytes) else value
                for value in values
            ],
        }
    spec = {"name": model, "signature_name": signature}
    return json.dumps({"model_spec": spec, "inputs": tensors})


def _to_text(values: Any) -> Any:
    if isinstance(values, bytes):
        return values.decode()
    values = values.tolist()
    if not isinstance(values, list):
        # A float32 number with no more digits than it has.
        return float(f"{values:.6g}") if isinstance(values, float) else values
    return [x.decode() if isinstance(x, bytes) else x for x in values]
