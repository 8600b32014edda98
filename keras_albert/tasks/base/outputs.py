"""Outputs of models: probabilities, and shapes that differ between batches."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.tasks.inputs.even_rows import real_rows


def softmax(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return probabilities over the last axis, as an array of the same shape.

    Example:
        >>> softmax(np.zeros((1, 2))).tolist()
        [[0.5, 0.5]]
    """
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def has_ragged_outputs(model: keras.Model) -> bool:
    """Return whether an output is as long as the longest row of a batch."""
    outputs = keras.tree.flatten(model.output)
    return any(None in output.shape[1:] for output in outputs)


def blank_outputs(task: Any, inputs: Any, outputs: Any) -> Any:
    """Overwrite outputs that belong to no token and depend on the width of the batch.

    Args:
        task: An `AlbertTask`.
        inputs: The model's inputs, a dict of arrays.
        outputs: Arrays `(rows, ...)`, in the structure of the model's outputs.

    Returns:
        The outputs, with `task.output_padding` where the input `task.output_places` is
        0.
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
    """Predict batch by batch, and concatenate outputs of different shapes.

    `keras.Model.predict` concatenates outputs of equal shapes only.

    Args:
        task: An `AlbertTask`.
        batches: A data set of the model's inputs, or of tuples that begin with them.
        num_batches: int or `None`. The number of batches, if it is known. Defaults to
            `None`.
        verbose: As in `keras.Model.predict`. Defaults to `"auto"`.
        steps: int or `None`. The maximum number of batches. Defaults to `None`, all.
        **kwargs: Other arguments of `keras.Model.predict`, which must be `None`.

    Returns:
        Arrays `(rows, ...)` in the structure of the model's outputs and the order of
        the batches, padded with `task.output_padding`.

    Raises:
        ValueError: If an argument is not supported.
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
