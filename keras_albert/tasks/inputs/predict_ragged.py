"""Predictions whose shape differs from batch to batch."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.tasks.inputs.even_rows import real_rows


def has_ragged_outputs(model: keras.Model) -> bool:
    """Whether an output is as long as the batch's longest row."""
    outputs = keras.tree.flatten(model.output)
    return any(None in output.shape[1:] for output in outputs)


def blank_outputs(task: Any, inputs: Any, outputs: Any) -> Any:
    """Overwrite what belongs to no token, which depends on the width of the batch.

    Args:
        task: An `AlbertTask`.
        inputs: The model's inputs, a dict of arrays.
        outputs: Arrays `(rows, ...)`, as the model's outputs are structured.

    Returns:
        The same with `task.output_padding` where `task.output_places` is 0, if the
        task names an input.
    """
    if task.output_places is None:
        return outputs
    is_place = np.asarray(inputs[task.output_places]) > 0

    def blank(symbolic: Any, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if symbolic.shape[1] is not None:
            return array
        kept = is_place.reshape(is_place.shape + (1,) * (array.ndim - is_place.ndim))
        return np.where(kept, array, array.dtype.type(task.output_padding))

    return keras.tree.map_structure(blank, task.output, outputs)


def predict_ragged(
    task: Any,
    batches: Any,
    num_batches: int | None = None,
    verbose: str | int = "auto",
    steps: int | None = None,
    **kwargs: Any,
) -> Any:
    """Predict batch by batch, and put outputs of unlike shapes together.

    `keras.Model.predict` wants to concatenate them as they are.

    Args:
        task: An `AlbertTask`.
        batches: A data set of the model's inputs, or of tuples that begin with them.
        num_batches: int or `None`. How many there are, if that is known. Defaults to
            `None`.
        verbose: As in `keras.Model.predict`. Defaults to `"auto"`.
        steps: int or `None`. The most batches. Defaults to `None`, all.
        **kwargs: What else `keras.Model.predict` takes, and what cannot be followed
            here: all must be `None`.

    Returns:
        Arrays `(rows, ...)` as the model's outputs are structured, in the order of
        the batches, filled up with `task.output_padding`.

    Raises:
        ValueError: If an argument cannot be followed.
    """
    if unknown := {key for key, value in kwargs.items() if value is not None}:
        msg = (
            f"{type(task).__name__}.predict goes through its batches itself and does "
            f"not take {', '.join(sorted(unknown))}."
        )
        raise ValueError(msg)
    bar = keras.utils.Progbar(
        steps or num_batches,
        verbose=1 if verbose == "auto" else verbose,
    )
    parts = []
    for index, batch in enumerate(islice(_iterate(batches), steps)):
        inputs = real_rows(batch)
        inputs = inputs[0] if isinstance(inputs, tuple) else inputs
        outputs = task.predict_on_batch(keras.tree.map_structure(np.asarray, inputs))
        parts.append(outputs)
        bar.update(index + 1)

    def join(*arrays: npt.NDArray[Any]) -> npt.NDArray[Any]:
        shape = np.max([array.shape[1:] for array in arrays], axis=0)
        return np.concatenate(
            [
                np.pad(
                    array,
                    [(0, 0), *((0, n) for n in shape - array.shape[1:])],
                    constant_values=task.output_padding,
                )
                for array in arrays
            ]
        )

    return keras.tree.map_structure(join, *parts)


def _iterate(batches: Any) -> Iterator[Any]:
    if isinstance(batches, keras.utils.PyDataset):
        return (batches[index] for index in range(len(batches)))
    return iter(batches)
