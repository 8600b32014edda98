"""Preprocessed texts: rows of ids, and checks of them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.types import Batch, Int64Array

if TYPE_CHECKING:
    from keras_albert.tasks.task import AlbertTask

# The inputs of the model, in this order.
ID_NAMES = ("token_ids", "segment_ids", "padding_mask")


def holds_ids(task: "AlbertTask", x: Any) -> bool:
    """Return whether `x` is preprocessed already."""
    return task.preprocessor is None or (isinstance(x, Mapping) and "token_ids" in x)


def read_ids(
    backbone: Any, inputs: Any, axes: tuple[str, ...] = ("examples", "tokens")
) -> dict[str, npt.NDArray[Any]]:
    """Read ids, and find those without an embedding before a backend looks them up."""
    if not isinstance(inputs, Mapping) or not set(ID_NAMES) <= set(inputs):
        keys = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
        raise TypeError(
            "The model takes texts, for which it needs a preprocessor, or a dict of "
            f"{', '.join(ID_NAMES)}. Received: {keys}"
        )
    ids = {name: _to_numpy(inputs[name]) for name in ID_NAMES}
    shapes = {name: array.shape for name, array in ids.items()}
    integral = all(array.dtype.kind in "iub" for array in ids.values())
    if (
        len(set(shapes.values())) > 1
        or len(shapes["token_ids"]) != len(axes)
        or not integral
    ):
        types = ", ".join(f"{name} {a.dtype} {a.shape}" for name, a in ids.items())
        raise ValueError(
            f"Ids must be arrays of integers, all of one shape ({', '.join(axes)}). "
            f"Received: {types}. Pass what the preprocessor returns for several texts."
        )
    for name, limit, what in (
        ("token_ids", backbone.vocabulary_size, "vocabulary_size"),
        # With one segment, the second text of a pair has it, too.
        ("segment_ids", max(2, backbone.num_segments), "num_segments"),
    ):
        if (row := first_outside(ids[name], limit)) is not None:
            raise ValueError(
                f"Row {row} of `{name}` contains an id outside 0 to {limit - 1}: the "
                f"model's `{what}` is {limit}. Use the vocabulary that the model was "
                "made with."
            )
    length = shapes["token_ids"][-1]
    if not length:
        msg = f"`token_ids` have no tokens: their shape is {shapes['token_ids']}."
        raise ValueError(msg)
    if length > backbone.max_sequence_length:
        raise ValueError(
            f"The rows of `token_ids` have {length} tokens, but the model reads at "
            f"most {backbone.max_sequence_length}. Truncate them."
        )
    return ids


def read_positions(
    ids: dict[str, npt.NDArray[Any]], inputs: Any
) -> dict[str, npt.NDArray[Any]]:
    """Return `ids` with `mask_positions`, which must be inside their rows."""
    if "mask_positions" not in inputs:
        raise TypeError(
            "A masked language model also takes `mask_positions`, integers (examples, "
            f"slots): where to predict. Received: {sorted(inputs)}"
        )
    positions = _to_numpy(inputs["mask_positions"])
    count, length = ids["token_ids"].shape
    if (
        positions.dtype.kind not in "iu"
        or positions.ndim != 2
        or len(positions) != count
    ):
        raise ValueError(
            f"`mask_positions` are integers (examples, slots), for {count} examples. "
            f"Received: {positions.dtype} {positions.shape}"
        )
    if (row := first_outside(positions, length)) is not None:
        raise ValueError(
            f"Row {row} of `mask_positions` points outside of its "
            f"{length} tokens. Count positions from 0."
        )
    return ids | {"mask_positions": positions}


def first_outside(numbers: npt.NDArray[Any], limit: int, least: int = 0) -> int | None:
    """Return the first row with a number outside `least` to `limit - 1`, or `None`."""
    wrong = (numbers < least) | (numbers >= limit)
    rows = np.asarray(wrong.any(axis=tuple(range(1, numbers.ndim))))
    return int(rows.argmax()) if rows.any() else None


def _to_numpy(array: Any) -> npt.NDArray[Any]:
    if isinstance(array, list | tuple):
        return np.asarray(array)
    return np.asarray(keras.ops.convert_to_numpy(array))


class IdRows:
    """Rows of ids with their targets and weights, as `Examples`."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        count, *_, width = keras.tree.flatten(batch[0]["token_ids"])[0].shape
        self.lengths: Int64Array = np.full(count, width, np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pick some rows; see `Examples`."""
        del length
        return keras.tree.map_structure(
            lambda array: None if array is None else array[rows], self.batch
        )
