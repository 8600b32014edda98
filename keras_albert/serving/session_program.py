"""A program, run by its path, that runs a SavedModel with TensorFlow alone.

    python session_program.py DIRECTORY

A server loads the graph of a model into TensorFlow's session, and runs it by the names
of its tensors. This program does the same: it imports TensorFlow and neither this
package nor tensorflow-text, of which it loads only the libraries of operations. It
replays the warm-up requests of the model, and writes one line of JSON for each step, so
that the parent process knows the last completed step if TensorFlow ends the process.
"""

import importlib.util
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.framework import tensor_pb2

# In `assets.extra`, under the name required by TensorFlow Serving.
WARM_UP_FILE = "tf_serving_warmup_requests"

# `message_classes`, which imports protobuf only, by its path: other versions of Python
# and TensorFlow run this program without the package.
_PROTOBUF = runpy.run_path(str(Path(__file__).parents[1] / "utils" / "protobuf.py"))
_Field = _PROTOBUF["Field"]
# Of these messages, TensorFlow has only the tensors, which are kept as bytes;
# tensorflow-serving-api, which has all, would require one version of TensorFlow.
# Source: `prediction_log.proto`, `predict.proto` and `model.proto` of
# [TensorFlow Serving](https://github.com/tensorflow/serving).
PredictionLog: Any = _PROTOBUF["message_classes"](
    "keras_albert.serving",
    {
        # An entry of a map.
        "Entry": {"key": _Field(1, "string"), "value": _Field(2, "bytes")},
        "ModelSpec": {
            "name": _Field(1, "string"),
            "signature_name": _Field(3, "string"),
        },
        "PredictRequest": {
            "model_spec": _Field(1, "ModelSpec"),
            "inputs": _Field(2, "Entry", repeated=True),
        },
        "PredictResponse": {"outputs": _Field(1, "Entry", repeated=True)},
        "PredictLog": {
            "request": _Field(1, "PredictRequest"),
            "response": _Field(2, "PredictResponse"),
        },
        "PredictionLog": {"predict_log": _Field(6, "PredictLog")},
    },
)["PredictionLog"]


def load(directory: str) -> tuple[Any, Any]:
    """Load a SavedModel as a server does: return the session and a `MetaGraphDef`."""
    text = importlib.util.find_spec("tensorflow_text")
    if text is None:
        raise ModuleNotFoundError("No module named 'tensorflow_text'")
    for folder in text.submodule_search_locations or ():
        for path in sorted(Path(folder).glob("python/*/_*.so")):
            tf.load_op_library(str(path))
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        return session, tf.compat.v1.saved_model.load(session, ["serve"], directory)


def run(session: Any, signature: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the outputs of a `SignatureDef` for arrays by name."""
    feed = {signature.inputs[name].name: array for name, array in inputs.items()}
    places = {name: info.name for name, info in sorted(signature.outputs.items())}
    outputs: dict[str, Any] = session.run(places, feed)
    return outputs


def read_warm_up(directory: str) -> list[Any]:
    """Read the warm-up requests, which an export of another program may lack."""
    path = Path(directory, "assets.extra", WARM_UP_FILE)
    if not path.exists():
        return []
    try:
        # Reading them checks their checksums.
        records = [x.numpy() for x in tf.data.TFRecordDataset(str(path))]
        return [PredictionLog.FromString(x).predict_log for x in records]
    except (tf.errors.OpError, DecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def replay(session: Any, graph: Any, log: Any) -> dict[str, Any]:
    """Run a request: return its first row, and the differences from its response."""
    inputs, expected = (
        {
            entry.key: tf.make_ndarray(tensor_pb2.TensorProto.FromString(entry.value))
            for entry in entries
        }
        for entries in (log.request.inputs, log.response.outputs)
    )
    name = log.request.model_spec.signature_name
    if name not in graph.signature_def:
        msg = f"the warm-up requests ask for {name!r}, which the graph does not have"
        raise ValueError(msg)
    found = run(session, graph.signature_def[name], inputs)
    differences = [
        float(abs(array - found[key]).max(initial=0.0))
        for key, array in expected.items()
        if array.dtype.kind == "f" and array.shape == found[key].shape
    ]
    rows = {key: array[:1] if array.ndim else array for key, array in inputs.items()}
    return {
        "signature": name,
        "inputs": {key: _as_text(row.tolist()) for key, row in rows.items()},
        "differences": differences,
    }


def describe(graph: Any) -> dict[str, Any]:
    """Return the inputs and outputs of the served signatures, as in `manifest.json`."""

    def specs(entries: Any) -> dict[str, Any]:
        return {
            name: {
                "dtype": tf.as_dtype(info.dtype).name,
                "shape": [
                    None if dim.size < 0 else dim.size for dim in info.tensor_shape.dim
                ],
            }
            for name, info in sorted(entries.items())
        }

    return {
        name: {"inputs": specs(one.inputs), "outputs": specs(one.outputs)}
        for name, one in sorted(graph.signature_def.items())
        # Functions that run when a model is loaded are not served.
        if not name.startswith("__")
    }


def operations(graph: Any) -> list[str]:
    """Return the names of all operations in the graph and its functions."""
    graph = graph.graph_def
    lists = [graph.node, *(each.node_def for each in graph.library.function)]
    return sorted({node.op for nodes in lists for node in nodes})


def _as_text(values: Any) -> Any:
    if isinstance(values, list):
        return [_as_text(value) for value in values]
    return values.decode(errors="replace") if isinstance(values, bytes) else values


def _say(**step: Any) -> None:
    sys.stdout.write(json.dumps(step) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Load the model and replay its requests."""
    errors = (DecodeError, LookupError, OSError, RuntimeError, ValueError)
    errors += (tf.errors.OpError,)
    directory = sys.argv[1]
    try:
        session, graph = load(directory)
        logs = read_warm_up(directory)
    except errors as error:
        _say(error=str(error))
        return
    found = {"signatures": describe(graph), "operations": operations(graph)}
    _say(**found, requests=len(logs))
    for log in logs:
        try:
            _say(**replay(session, graph, log))
        except errors as error:
            _say(signature=log.request.model_spec.signature_name, error=str(error))


if __name__ == "__main__":
    main()
