"""Running SavedModels in a separate process that imports TensorFlow alone."""

import base64
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy.typing as npt

from keras_albert.serving.tensorflow_files.messages import TensorProto
from keras_albert.serving.tensorflow_files.saved_model_file import Signature
from keras_albert.serving.tensorflow_files.tensors import read_tensor, write_tensor
from keras_albert.serving.tensorflow_process import describe_end, run_child
from keras_albert.serving.verification import session_program

Request = tuple[Signature, Mapping[str, Any]]


class Served(NamedTuple):
    """The results of the process.

    Attributes:
        operations: TensorFlow's own operations.
        answers: For each request the outputs by name, or the error message.
    """

    operations: frozenset[str]
    answers: list[dict[str, npt.NDArray[Any]] | str]


def run_saved_model(
    directory: Path,
    requests: Sequence[Request],
    python: str | os.PathLike[str] | None = None,
) -> Served:
    """Load a SavedModel into a TensorFlow session as a server does; run requests."""
    job = {"directory": str(directory), "requests": list(map(write_request, requests))}
    finished = run_child(
        [os.fspath(python or sys.executable), "-I"],
        session_program.__file__,
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
            f"TensorFlow cannot load {directory}: {reason}. If files are missing or "
            "damaged, copy or export it again."
        )
        raise ValueError(msg)
    if len(steps) != 2 + len(requests):
        msg = (
            f"The process that runs {directory} {describe_end(finished.returncode)} in "
            f"step {len(steps)} of {2 + len(requests)}; a server would die, too. Its "
            f"error output:\n{finished.stderr[-2000:]}"
        )
        raise ValueError(msg)
    answers = [
        str(step["error"]) if "error" in step else read_answer(request, step["outputs"])
        for request, step in zip(requests, steps[2:], strict=True)
    ]
    return Served(frozenset(steps[0]["operations"]), answers)


def write_request(request: Request) -> dict[str, Any]:
    """Convert a request to the arguments of `session_program.run`, as JSON values."""
    signature, arrays = request
    inputs = {
        signature.inputs[name].place: write_tensor(array).SerializeToString()
        for name, array in arrays.items()
    }
    return {
        "inputs": {key: base64.b64encode(x).decode() for key, x in inputs.items()},
        "outputs": [spec.place for spec in signature.outputs.values()],
    }


def read_answer(request: Request, tensors: list[str]) -> dict[str, npt.NDArray[Any]]:
    """Read the result of `session_program.run`."""
    messages = (TensorProto.FromString(base64.b64decode(x)) for x in tensors)
    return dict(zip(request[0].outputs, map(read_tensor, messages), strict=True))
