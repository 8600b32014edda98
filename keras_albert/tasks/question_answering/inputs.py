"""The inputs and targets of the question answerer's two heads."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.tasks.inputs.preprocessed_inputs import first_outside


def read_start_positions(inputs: Mapping[str, Any]) -> npt.NDArray[Any] | None:
    """Read `start_positions`, the input of the conditional head, if there are any.

    int32 `(rows, starts)`.
    """
    if inputs.get("start_positions") is None:
        return None
    starts = _numbers("start_positions", inputs["start_positions"], "iu", np.int32)
    return starts.reshape(len(starts), -1)


def read_span_targets(y: Any, names: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    """Read the targets of rows of ids."""
    if not isinstance(y, Mapping) or not set(names) <= set(y):
        received = sorted(y) if isinstance(y, Mapping) else type(y).__name__
        msg = (
            f"The targets of ids are a dict of {', '.join(names)}, as the "
            f"preprocessor returns them. Received: {received}"
        )
        raise TypeError(msg)
    targets = {}
    for name in names:
        is_place = name.endswith("_logits")
        kinds, dtype = ("iu", np.int32) if is_place else ("iufb", np.float32)
        targets[name] = _numbers(name, y[name], kinds, dtype).reshape(-1)
    return targets


def check_places(name: str, places: npt.NDArray[Any], length: int, least: int) -> None:
    """Check that positions are inside of their rows."""
    if (row := first_outside(places, length, least)) is not None:
        msg = (
            f"Row {row} of `{name}` is {places[row].tolist()}, and its tokens have the "
            f"places 0 to {length - 1}. Pass 0, the place of [CLS], where the row does "
            "not hold the answer."
        )
        raise ValueError(msg)


def _numbers(name: str, values: Any, kinds: str, dtype: Any) -> npt.NDArray[Any]:
    array = np.asarray(keras.ops.convert_to_numpy(values))
    if array.ndim not in (1, 2) or array.dtype.kind not in kinds:
        msg = (
            f"`{name}` is an array of numbers, one a row, as the preprocessor returns "
            f"it. Received: {array.dtype} {array.shape}"
        )
        raise ValueError(msg)
    return array.astype(dtype)
