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
import sys
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from tensorflow.core.framework import tensor_pb2

# In `assets.extra`, under the name required by TensorFlow Serving.
WARM_UP_FILE = "tf_serving_warmup_requests"

# The messages of a warm-up request: the number and the type of each field. Of these,
# TensorFlow has only the tensors; tensorflow-serving-api, which has all, would require
# one particular version of TensorFlow. A map is stored as repeated entries.
#
# Source: `prediction_log.proto`, `predict.proto` and `model.proto` of
# [TensorFlow Serving](https://github.com/tensorflow/serving).
_MESSAGES = {
    "PredictionLog": {"predict_log": (6, "PredictLog")},
    "PredictLog": {
        "request": (1, "PredictRequest"),
        "response": (2, "PredictResponse"),
    },
    "PredictRequest": {"model_spec": (1, "ModelSpec"), "inputs": (2, "Entry")},
    "PredictResponse": {"outputs": (1, "Entry")},
    "ModelSpec": {"name": (1, "string"), "signature_name": (3, "string")},
    "Entry": {"key": (1, "string"), "value": (2, "TensorProto")},
}


_PACKAGE = "keras_albert.serving"
_FIELD = descriptor_pb2.FieldDescriptorProto


def _prediction_log() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name=_PACKAGE, package=_PACKAGE, dependency=[tensor_pb2.DESCRIPTOR.name]
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for key, (number, kind) in fields.items():
            field = message.field.add(name=key, number=number, type=_FIELD.TYPE_STRING)
            is_many = kind == "Entry"
            field.label = _FIELD.LABEL_REPEATED if is_many else _FIELD.LABEL_OPTIONAL
            if kind != "string":
                package = _PACKAGE if kind in _MESSAGES else "tensorflow"
                field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{package}.{kind}"
    pool = descriptor_pool.Default()
    pool.Add(file)
    found = pool.FindMessageTypeByName(f"{_PACKAGE}.PredictionLog")
    return message_factory.GetMessageClass(found)


# The class of the records in the warm-up file.
PredictionLog: Any = _prediction_log()


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
        {entry.key: tf.make_ndarray(entry.value) for entry in entries}
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

    def spec(info: Any) -> dict[str, Any]:
        sizes = (dim.size for dim in info.tensor_shape.dim)
        shape = [None if size < 0 else size for size in sizes]
        return {"dtype": tf.as_dtype(info.dtype).name, "shape": shape}

    def specs(entries: Any) -> dict[str, Any]:
        return {name: spec(info) for name, info in sorted(entries.items())}

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
    errors = (tf.errors.OpError, LookupError, OSError, RuntimeError, ValueError)
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
