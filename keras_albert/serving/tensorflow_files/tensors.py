"""Conversion between arrays and TensorFlow's tensor messages."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.serving.tensorflow_files.messages import TensorProto

# TensorFlow's numbers for the dtypes of served models.
DTYPES = {1: "float32", 3: "int32", 7: "string"}
DTYPE_NUMBERS = {name: number for number, name in DTYPES.items()}


def write_tensor(array: Any) -> Any:
    """Convert an array to a message."""
    array = np.asarray(array)
    dtype = "string" if array.dtype == object else array.dtype.name
    message = TensorProto(dtype=DTYPE_NUMBERS[dtype])
    message.tensor_shape.SetInParent()  # a scalar has a shape, too: an empty one
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    if dtype == "string":
        message.string_val.extend(array.reshape(-1).tolist())
    else:
        message.tensor_content = array.tobytes()
    return message


def read_tensor(message: Any) -> npt.NDArray[Any]:
    """Convert a message to an array."""
    shape = [dim.size for dim in message.tensor_shape.dim]
    dtype = DTYPES.get(message.dtype)
    if dtype is None:
        msg = (
            f"A tensor has TensorFlow's dtype number {message.dtype}. Served models "
            f"have only {DTYPES}."
        )
        raise ValueError(msg)
    kind: Any = object if dtype == "string" else dtype
    if message.tensor_content:
        return np.frombuffer(message.tensor_content, kind).reshape(shape)
    values = [*message.string_val, *message.float_val, *message.int_val]
    # TensorFlow omits repetitions of the last value.
    values += values[-1:] * (math.prod(shape) - len(values))
    array = np.empty(len(values), kind)
    array[:] = values
    return array.reshape(shape)
