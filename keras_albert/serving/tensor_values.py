"""Arrays as TensorFlow's tensor messages."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.serving.tensorflow_messages import TensorProto

# TensorFlow's numbers of the dtypes that served models have.
DTYPES = {1: "float32", 3: "int32", 7: "string"}
DTYPE_NUMBERS = {name: number for number, name in DTYPES.items()}


def write_tensor(array: Any) -> Any:
    """Make a message of an array.

    Args:
        array: float32, int32, or bytes as objects.

    Returns:
        A `TensorProto`.
    """
    array = np.asarray(array)
    dtype = "string" if array.dtype == object else array.dtype.name
    message = TensorProto(dtype=DTYPE_NUMBERS[dtype])
    message.tensor_shape.SetInParent()  # a scalar has a shape too, an empty one
    for size in array.shape:
        message.tensor_shape.dim.add(size=size)
    if dtype == "string":
        message.string_val.extend(array.reshape(-1).tolist())
    else:
        message.tensor_content = array.tobytes()
    return message


def read_tensor(message: Any) -> npt.NDArray[Any]:
    """Make an array of a message.

    Args:
        message: A `TensorProto`, as `write_tensor` or TensorFlow makes it.

    Returns:
        float32, int32, or bytes as objects.

    Raises:
        ValueError: If its dtype is another one, or it has not what its shape says.
    """
    shape = [dim.size for dim in message.tensor_shape.dim]
    dtype = DTYPES.get(message.dtype)
    if dtype is None:
        msg = (
            f"A tensor has TensorFlow's dtype number {message.dtype}. Served models "
            f"have {DTYPES} alone."
        )
        raise ValueError(msg)
    kind: Any = object if dtype == "string" else dtype
    if message.tensor_content:
        return np.frombuffer(message.tensor_content, kind).reshape(shape)
    values = [*message.string_val, *message.float_val, *message.int_val]
    # TensorFlow leaves out what repeats the last value.
    values += values[-1:] * (math.prod(shape) - len(values))
    array = np.empty(len(values), kind)
    array[:] = values
    return array.reshape(shape)
