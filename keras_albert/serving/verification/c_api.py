"""Running SavedModels through TensorFlow's C API, in a separate process."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from keras_albert.serving.tensorflow_files.messages import OpList
from keras_albert.serving.tensorflow_files.saved_model_file import Signature
from keras_albert.serving.tensorflow_files.tensors import DTYPE_NUMBERS, DTYPES
from keras_albert.serving.tensorflow_process import describe_end, run_child
from keras_albert.serving.verification import c_api_program

Arrays = dict[str, npt.NDArray[Any]]


class Served(NamedTuple):
    """The results of the process.

    Attributes:
        operations: The operations of TensorFlow's library.
        answers: For each request the outputs by name, or the error message.
    """

    operations: frozenset[str]
    answers: list[Arrays | str]


def run_saved_model(
    directory: Path,
    requests: Sequence[tuple[Signature, Mapping[str, Any]]],
    python: str | os.PathLike[str] | None = None,
) -> Served:
    """Load a SavedModel as a server does, and run requests.

    TensorFlow's C++ library loads it, without TensorFlow's Python code, together with
    the libraries of tensorflow-text's operations.

    Args:
        directory: Path. The directory of one version.
        requests: Signatures, each with arrays by the names of its inputs.
        python: string or path. An interpreter that has TensorFlow and tensorflow-text.
            Defaults to `None`, the current interpreter.

    Returns:
        `Served`.

    Raises:
        ImportError: If the interpreter lacks these libraries.
        ValueError: If the library cannot load the model, or the process died.
    """
    job = {
        "directory": str(directory),
        "requests": [
            {
                "inputs": {
                    signature.inputs[name].place: _to_json(array)
                    for name, array in inputs.items()
                },
                "outputs": [spec.place for spec in signature.outputs.values()],
            }
            for signature, inputs in requests
        ],
    }
    finished = run_child(
        [os.fspath(python or sys.executable), "-I"],
        c_api_program.__file__,
        os.environ | {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"},
        words=json.dumps(job) + "\n",
    )
    steps = [json.loads(line) for line in finished.stdout.splitlines()]
    if steps and "missing" in steps[0]:
        msg = f"{steps[0]['missing']}. Install: pip install tensorflow-text"
        raise ImportError(msg)
    if len(steps) > 1 and "error" in steps[1]:
        # The other lines name the place in the graph.
        reason = steps[1]["error"].partition("\n")[0]
        msg = (
            f"TensorFlow's library cannot load {directory}: {reason}. If "
            "files are missing or damaged, copy or export it again."
        )
        raise ValueError(msg)
    if len(steps) != 2 + len(requests):
        msg = (
            f"The process that serves {directory} {describe_end(finished.returncode)}, "
            f"in step {len(steps)} of {2 + len(requests)}. A server would die alike. "
            f"It said:\n{finished.stderr[-2000:]}"
        )
        raise ValueError(msg)
    operations = OpList.FromString(steps[0]["operations"].encode("latin-1"))
    return Served(
        frozenset(operation.name for operation in operations.op),
        [
            _read_answer(signature, step)
            for (signature, _), step in zip(requests, steps[2:], strict=True)
        ],
    )


def _read_answer(signature: Signature, step: dict[str, Any]) -> Arrays | str:
    if "error" in step:
        return str(step["error"])
    tensors = map(_from_json, step["outputs"])
    return dict(zip(signature.outputs, tensors, strict=True))


def _to_json(value: Any) -> dict[str, Any]:
    array = np.asarray(value)
    values = array.reshape(-1).tolist()
    dtype = array.dtype.name
    if dtype == "object":
        dtype, values = "string", [text.decode("latin-1") for text in values]
    return {"dtype": DTYPE_NUMBERS[dtype], "shape": array.shape, "values": values}


def _from_json(tensor: dict[str, Any]) -> npt.NDArray[Any]:
    dtype, values = DTYPES[tensor["dtype"]], tensor["values"]
    if dtype == "string":
        array = np.empty(len(values), object)
        array[:] = [text.encode("latin-1") for text in values]
    else:
        array = np.array(values, dtype)
    return array.reshape(tensor["shape"])
