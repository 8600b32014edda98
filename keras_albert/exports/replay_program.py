"""A program, run by its path, that loads a SavedModel with TensorFlow alone.

    python replay_program.py DIRECTORY

It imports TensorFlow and neither this package nor tensorflow-text, of which it loads
only the libraries of operations. It replays the warm-up requests of the model, and
writes one line of JSON for each step, so that the parent process knows the last
completed step if TensorFlow ends the process.
"""

import importlib.util
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from tensorflow.core.framework import tensor_pb2
from tensorflow.core.protobuf import saved_model_pb2

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


_PACKAGE = "keras_albert.exports"
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


def load(directory: str) -> Any:
    """Load a SavedModel."""
    text = importlib.util.find_spec("tensorflow_text")
    if text is None:
        raise ModuleNotFoundError("No module named 'tensorflow_text'")
    for folder in text.submodule_search_locations or ():
        for path in sorted(Path(folder).glob("python/*/_*.so")):
            tf.load_op_library(str(path))
    return tf.saved_model.load(directory, tags=["serve"])


def input_specs(signature: Any) -> dict[str, Any]:
    """Return the `tf.TensorSpec` of each input."""
    positional, named = signature.structured_input_signature
    return {spec.name: spec for spec in (*positional, *named.values())}


def run(signature: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs for arrays by name."""
    specs = input_specs(signature)
    tensors = {
        name: tf.constant(array, specs[name].dtype, array.shape)
        for name, array in inputs.items()
    }
    return {name: x.numpy() for name, x in sorted(signature(**tensors).items())}


def read_warm_up(directory: str) -> list[Any]:
    """Read the warm-up requests, if the export has them."""
    path = Path(directory, "assets.extra", WARM_UP_FILE)
    if not path.exists():
        return []
    try:
        # Reading them checks their checksums.
        records = [x.numpy() for x in tf.data.TFRecordDataset(str(path))]
        return [PredictionLog.FromString(x).predict_log for x in records]
    except (tf.errors.OpError, DecodeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def replay(model: Any, log: Any) -> dict[str, Any]:
    """Run a request: return its first row, and the differences from its response."""
    inputs, expected = (
        {entry.key: tf.make_ndarray(entry.value) for entry in entries}
        for entries in (log.request.inputs, log.response.outputs)
    )
    name = log.request.model_spec.signature_name
    if name not in model.signatures:
        msg = f"the warm-up requests ask for {name!r}, which the graph does not have"
        raise ValueError(msg)
    found = run(model.signatures[name], inputs)
    differences = [
        float(abs(array - found[key]).max(initial=0.0))
        for key, array in expected.items()
        if array.dtype.kind == "f" and array.shape == found[key].shape
    ]
    rows = {key: array[:1] for key, array in inputs.items()}
    return {
        "signature": name,
        "inputs": {key: _as_text(row.tolist()) for key, row in rows.items()},
        "differences": differences,
    }


def describe(signatures: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs and outputs of signatures, as in `manifest.json`."""

    def shapes(specs: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: {"dtype": spec.dtype.name, "shape": spec.shape.as_list()}
            for name, spec in specs.items()
        }

    return {
        name: {
            "inputs": shapes(input_specs(one)),
            "outputs": shapes(one.structured_outputs),
        }
        for name, one in signatures.items()
    }


def operations(directory: str) -> list[str]:
    """Return the names of all operations in the graph and its functions."""
    content = Path(directory, "saved_model.pb").read_bytes()
    graph = saved_model_pb2.SavedModel.FromString(content).meta_graphs[0].graph_def
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
        model = load(directory)
        logs = read_warm_up(directory)
    except errors as error:
        _say(error=str(error))
        return
    _say(
        signatures=describe(dict(sorted(model.signatures.items()))),
        operations=operations(directory),
        requests=len(logs),
    )
    for log in logs:
        try:
            _say(**replay(model, log))
        except errors as error:
            _say(signature=log.request.model_spec.signature_name, error=str(error))


if __name__ == "__main__":
    main()
