"""TensorFlow's and TensorFlow Serving's messages, for programs without either.

An export needs TensorFlow; tensorflow-serving-api, which defines the requests, would
require one particular version of it. A map is declared as it is stored: a repeated
message of `key` and `value`.

Source: `saved_model.proto`, `meta_graph.proto`, `graph.proto`, `function.proto`,
and `tensor.proto` of [TensorFlow](https://github.com/tensorflow/tensorflow);
`prediction_log.proto`, `predict.proto` and `model.proto` of
[TensorFlow Serving](https://github.com/tensorflow/serving).
"""

from typing import Any

from keras_albert.utils.protobuf import Field, message_classes


def _entry(kind: str) -> dict[str, Field]:
    return {"key": Field(1, "string"), "value": Field(2, kind)}


def _many(number: int, kind: str) -> Field:
    return Field(number, kind, repeated=True)


_MESSAGES = message_classes(
    "keras_albert.tensorflow",
    {
        # The model.
        "SavedModel": {"meta_graphs": _many(2, "MetaGraphDef")},
        "MetaGraphDef": {
            "graph_def": Field(2, "GraphDef"),
            "signature_def": _many(5, "SignatureEntry"),
        },
        "GraphDef": {
            "node": _many(1, "NodeDef"),
            "library": Field(2, "FunctionDefLibrary"),
        },
        "NodeDef": {"name": Field(1, "string"), "op": Field(2, "string")},
        "FunctionDefLibrary": {"function": _many(1, "FunctionDef")},
        "FunctionDef": {"node_def": _many(3, "NodeDef")},
        "SignatureEntry": _entry("SignatureDef"),
        "SignatureDef": {
            "inputs": _many(1, "TensorInfoEntry"),
            "outputs": _many(2, "TensorInfoEntry"),
        },
        "TensorInfoEntry": _entry("TensorInfo"),
        "TensorInfo": {
            "name": Field(1, "string"),
            "dtype": Field(2, "int32"),
            "tensor_shape": Field(3, "TensorShapeProto"),
        },
        # Its inputs and outputs.
        "TensorShapeProto": {"dim": _many(2, "Dim")},
        "Dim": {"size": Field(1, "int64")},
        "TensorProto": {
            "dtype": Field(1, "int32"),
            "tensor_shape": Field(2, "TensorShapeProto"),
            "tensor_content": Field(4, "bytes"),
            "float_val": _many(5, "float"),
            "int_val": _many(7, "int32"),
            "string_val": _many(8, "bytes"),
        },
        "TensorEntry": _entry("TensorProto"),
        # Requests to a server.
        "PredictionLog": {"predict_log": Field(6, "PredictLog")},
        "PredictLog": {
            "request": Field(1, "PredictRequest"),
            "response": Field(2, "PredictResponse"),
        },
        "PredictRequest": {
            "model_spec": Field(1, "ModelSpec"),
            "inputs": _many(2, "TensorEntry"),
        },
        "PredictResponse": {"outputs": _many(1, "TensorEntry")},
        "ModelSpec": {"name": Field(1, "string"), "signature_name": Field(3, "string")},
    },
)
SavedModel: Any = _MESSAGES["SavedModel"]
TensorProto: Any = _MESSAGES["TensorProto"]
PredictionLog: Any = _MESSAGES["PredictionLog"]
