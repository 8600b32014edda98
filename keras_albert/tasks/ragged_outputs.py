"""Predictions whose shape differs from batch to batch."""

from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.tasks.length_batches import LengthBatches


def has_ragged_outputs(model: keras.Model) -> bool:
    """Whether an output is as long as the batch's longest row."""
    outputs = keras.tree.flatten(model.output)
    return any(None in output.shape[1:] for output in outputs)


def predict_ragged(
    task: Any, batches: LengthBatches, verbose: str | int = "auto", **kwargs: Any
) -> Any:
    """Predict batch by batch, and put outputs of unlike shapes together.

    `keras.Model.predict` wants to concatenate them as they are.

    Args:
        task: An `AlbertTask`.
        batches: The batches.
        verbose: As in `keras.Model.predict`. Defaults to `"auto"`.
        **kwargs: What else `keras.Model.predict` takes, and what cannot be followed
            here: all must be `None`.

    Returns:
        Arrays `(rows, ...)` as the model's outputs are structured, in the order of
        the examples, filled up with `task.output_padding`.

    Raises:
        ValueError: If an argument cannot be followed.
    """
    if unknown := {key for key, value in kwargs.items() if value is not None}:
        msg = (
            f"{type(task).__name__}.predict goes through its batches itself and does "
            f"not take {', '.join(sorted(unknown))}."
        )
        raise ValueError(msg)
    bar = keras.utils.Progbar(len(batches), verbose=1 if verbose == "auto" else verbose)
    parts = []
    for index in range(len(batches)):
        (inputs, *_) = batches[index]
        outputs = task.predict_on_batch(inputs)
        parts.append(keras.tree.map_structure(keras.ops.convert_to_numpy, outputs))
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

    return batches.restore_order(keras.tree.map_structure(join, *parts))
