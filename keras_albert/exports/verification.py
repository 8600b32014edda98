"""Checking that a server can load an export and reproduces its predictions."""

import base64
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_albert.exports.saved_model.export import served_version
from keras_albert.utils.child_process import describe_end, run_child
from keras_albert.utils.remote import fetch

# The names of dtypes and of value fields in the JSON form of protocol buffers.
_FIELDS = {
    "string": ("DT_STRING", "string_val"),
    "int32": ("DT_INT32", "int_val"),
    "float32": ("DT_FLOAT", "float_val"),
}

# Between two versions of TensorFlow, float32 results differ by 1e-6, and int8 results
# by 0.02 where a number is rounded differently.
_TOLERANCE = 0.05

# Operations of TensorFlow's Python library that a server does not have, or only for
# graphs compiled by the same XLA version: jax2tf's, and calls into Python.
_NOT_SERVED = ("EagerPyFunc", "PyFunc", "Xla")


class TensorSpec(NamedTuple):
    """An input or an output."""

    dtype: str
    shape: tuple[int | None, ...]


class Signature(NamedTuple):
    """A served function."""

    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]


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

    - TensorFlow loads the graph and its weights without Python code of the exporting
      packages: in a new process, which imports neither this package nor
      tensorflow-text; of the latter it loads the libraries of operations.
    - A stock server has all operations of the graph: the process has only
      TensorFlow's and tensorflow-text's, and calls into Python and XLA are refused.
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
        >>> from keras_albert import AlbertClassifier
        >>> from keras_albert.exports import verify
        >>> classifier = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
        >>> verified = verify(classifier.export("served/films"))
        >>> sorted(verified.signatures)
        ['serve_document', 'serve_pair', 'serve_tokens', 'serving_default']
    """
    path = fetch(directory).absolute()
    version = served_version(path) or path
    if not (version / "saved_model.pb").is_file():
        raise ValueError(
            f"{version} contains no `saved_model.pb`. Pass the path that `export` "
            "returned, or the directory above it."
        )
    read, replayed = _replay(version, python or sys.executable)
    unknown = [name for name in read["operations"] if name.startswith(_NOT_SERVED)]
    if unknown:
        raise ValueError(
            f"TensorFlow Serving does not have operations of {version}: "
            f"{', '.join(unknown)}. Export it with this package from the task."
        )
    for request in replayed:
        if "error" in request:
            msg = f"{version} cannot run {request['signature']}: {request['error']}"
            raise ValueError(msg)
    largest = float(np.max([0.0, *(x for one in replayed for x in one["differences"])]))
    if not largest <= _TOLERANCE:
        raise ValueError(
            f"{version} returns different results than when it was written: they "
            f"differ by {largest:.3g}. Its files do not belong together; copy or "
            "export it again."
        )
    signatures = read_signatures(read["signatures"])
    # Short requests precede long ones.
    short = {request["signature"]: request["inputs"] for request in replayed[::-1]}
    examples = {key: (signatures[key].inputs, short[key]) for key in sorted(short)}
    name = version.parent.name
    return VerifiedModel(
        directory=version,
        signatures=signatures,
        operations=frozenset(read["operations"]),
        requests=len(replayed),
        largest_difference=largest,
        rest={key: _rest_example(key, x[1]) for key, x in examples.items()},
        grpc={key: _grpc_example(key, *x, name) for key, x in examples.items()},
    )


def read_signatures(described: Mapping[str, Any]) -> dict[str, Signature]:
    """Read the signatures of `manifest.json` and of `replay_program.describe`."""

    def read(specs: Mapping[str, Any]) -> dict[str, TensorSpec]:
        return {
            name: TensorSpec(spec["dtype"], tuple(spec["shape"]))
            for name, spec in sorted(specs.items())
        }

    return {
        name: Signature(read(one["inputs"]), read(one["outputs"]))
        for name, one in described.items()
    }


def _replay(
    version: Path, python: str | os.PathLike[str]
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run `replay_program`: return what it read, and each replayed request."""
    program = str(Path(__file__).with_name("replay_program.py"))
    finished = run_child([os.fspath(python), "-I"], program, [str(version)])
    read, *replayed = [json.loads(x) for x in finished.stdout.splitlines()] or [{}]
    missing = re.search("^ModuleNotFoundError: (.*)", finished.stderr, re.MULTILINE)
    if finished.returncode and missing is not None:
        msg = f"{python}: {missing[1]}. Install: pip install tensorflow-text"
        raise ImportError(msg)
    if "error" in read:
        # The other lines name the place in the graph.
        reason = read["error"].partition("\n")[0]
        raise ValueError(
            f"TensorFlow cannot load {version}: {reason}. If files are missing or "
            "damaged, copy or export it again."
        )
    if len(replayed) != read.get("requests"):
        raise ValueError(
            f"The process that runs {version} {describe_end(finished.returncode)} "
            f"after {len(replayed)} requests. A server would end as well. Its error "
            f"output:\n{finished.stderr[-2000:]}"
        )
    return read, replayed


def _rest_example(signature: str, inputs: Mapping[str, Any]) -> str:
    """Return the JSON for `POST /v1/models/NAME:predict`, with one row."""
    row = {name: values[0] for name, values in inputs.items()}
    return json.dumps({"signature_name": signature, "instances": [row]})


def _grpc_example(
    signature: str,
    specs: Mapping[str, TensorSpec],
    inputs: Mapping[str, Any],
    model: str,
) -> str:
    """Return a `PredictRequest` in JSON, with one row and strings in base64."""
    tensors = {}
    for name, values in inputs.items():
        dtype, field = _FIELDS[specs[name].dtype]
        array = np.array(values)
        flat = array.ravel().tolist()
        if dtype == "DT_STRING":
            flat = [base64.b64encode(value.encode()).decode() for value in flat]
        shape = {"dim": [{"size": size} for size in array.shape]}
        tensors[name] = {"dtype": dtype, "tensor_shape": shape, field: flat}
    spec = {"name": model, "signature_name": signature}
    return json.dumps({"model_spec": spec, "inputs": tensors})
