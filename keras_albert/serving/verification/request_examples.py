"""Example requests to a server, in JSON."""

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

# The names of dtypes and of value fields in the JSON form of protocol buffers.
_FIELDS = {"object": ("DT_STRING", "string_val"), "int32": ("DT_INT32", "int_val")}


def rest_example(signature: str, inputs: Mapping[str, Any]) -> str:
    """Write a request to the REST interface, with one row.

    Args:
        signature: string. The name of the signature.
        inputs: Arrays by name; only the first row is used.

    Returns:
        The JSON for `POST http://HOST:8501/v1/models/NAME:predict`.

    Example:
        >>> import numpy as np
        >>> from keras_albert.serving.verification.request_examples import rest_example
        >>> rest_example("serving_default", {"text": np.array([b"a text"], object)})
        '{"signature_name": "serving_default", "instances": [{"text": "a text"}]}'
    """
    row = {name: _to_text(array[0]) for name, array in inputs.items()}
    return json.dumps({"signature_name": signature, "instances": [row]})


def grpc_example(signature: str, inputs: Mapping[str, Any], model: str) -> str:
    """Write a request to the gRPC interface, with one row.

    Args:
        signature: string. The name of the signature.
        inputs: Arrays by name; only the first row is used.
        model: string. The model's name in the server.

    Returns:
        A `PredictRequest` in JSON for grpcurl or `google.protobuf.json_format`.
        Strings are in base64.
    """
    tensors = {}
    for name, array in inputs.items():
        dtype, field = _FIELDS[array.dtype.name]
        shape = (1, *array.shape[1:])
        values = np.ravel(array[:1]).tolist()
        tensors[name] = {
            "dtype": dtype,
            "tensor_shape": {"dim": [{"size": size} for size in shape]},
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
    return [x.decode() if isinstance(x, bytes) else x for x in values]
