"""Types of the public signatures."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

# A tensor of the current Keras backend, or of `keras.Input`.
Tensor: TypeAlias = Any

# Any argument of `keras.dtype_policies.get`: "float32", "mixed_bfloat16", ...
DType: TypeAlias = Any

# A Keras activation name, "gelu_approximate" (alias "gelu_new"), or a callable.
Activation: TypeAlias = str | Callable[[Tensor], Tensor]


# `token_ids`, `segment_ids` and `padding_mask`, each (batch, length), int32.
ModelInputs: TypeAlias = Mapping[str, Tensor]

# One text, many texts, or a pair of either; see `text_columns`.
Texts: TypeAlias = Any

# The mode of a batch: decides whether it has targets and what is drawn at random.
Mode: TypeAlias = Literal["training", "evaluation", "prediction"]

# How a pair that is too long is truncated, with KerasHub's names.
Truncation: TypeAlias = Literal["round_robin", "waterfall"]

IntArray: TypeAlias = npt.NDArray[np.int32]
FloatArray: TypeAlias = npt.NDArray[np.float32]
Lengths: TypeAlias = Sequence[int]
Int64Array: TypeAlias = npt.NDArray[np.int64]

# `(x,)`, `(x, y)` or `(x, y, sample_weight)`: arrays, or nested structures of arrays.
Batch: TypeAlias = tuple[Any, ...]

# An `AlbertTask`, for the data, the devices and the functions that tasks share; it is a
# `keras.Model`, which has no types.
Task: TypeAlias = Any
