"""Inputs and targets of the question answerer as the preprocessor gives them."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import numpy.typing as npt


def read_start_positions(inputs: Mapping[str, Any]) -> npt.NDArray[Any] | None:
    """Read the starts that the conditional head is given, if there are any.

    Args:
        inputs: A dict that may have `start_positions`.

    Returns:
        int32 array `(rows, starts)`, or `None`.

    Raises:
        ValueError: If they are no such integers.
    """
    if inputs.get("start_positions") is None:
        return None
    starts = _numbers("start_positions", inputs["start_positions"], "iu", np.int32)
    return starts.reshape(len(starts), -1)


def read_span_targets(y: Any, names: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    """Read the targets of rows of ids.

    Args:
        y: A dict of arrays `(rows,)` or `(rows, 1)`.
        names: The outputs that have a loss.

    Returns:
        Arrays `(rows,)`.

    Raises:
        TypeError: If `y` is no dict that has these names.
        ValueError: If one holds no numbers, or no whole ones.
    """
    if not isinstance(y, Mapping) or not set(names) <= set(y):
        received = sorted(y) if isinstance(y, Mapping) else type(y).__name__
        msg = (
            f"The targets of ids are a dict of {', '.join(names)}, as the "
            f"preprocessor gives them. Received: {received}"
        )
        raise TypeError(msg)
    targets = {}
    for name in names:
        is_place = name.endswith("_logits")
        kinds, dtype = ("iu", np.int32) if is_place else ("iufb", np.float32)
        targets[name] = _numbers(name, y[name], kinds, dtype).reshape(-1)
    return targets


def check_places(name: str, places: npt.NDArray[Any], length: int, least: int) -> None:
    """Find a place outside its row.

    Args:
        name: string. What holds the places.
        places: Integer array `(rows,)` or `(rows, places)`.
        length: int. The length of the rows.
        least: int. The least number allowed.

    Raises:
        ValueError: If there is one; the message names its row.
    """
    by_row = places.reshape(len(places), -1)
    outside = ((by_row < least) | (by_row >= length)).any(axis=1)
    if outside.any():
        row = int(outside.argmax())
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
            f"`{name}` is an array of numbers, one a row, as the preprocessor gives "
            f"it. Received: {array.dtype} {array.shape}"
        )
        raise ValueError(msg)
    return array.astype(dtype)
