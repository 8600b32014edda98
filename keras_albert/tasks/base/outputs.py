"""Outputs of models: all batches of a prediction, probabilities, and shapes."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.tasks.distribution.model_state import kept_weights
from keras_albert.tasks.inputs.dataset_sizes import num_steps, run_on
from keras_albert.tasks.inputs.even_rows import IdRows, real_rows
from keras_albert.tasks.inputs.model_input import read_model_input


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


def predict_all(
    task: Any,
    x: Any,
    batch_size: int | None = None,
    run_batch: Callable[[Any], Any] | None = None,
    **kwargs: Any,
) -> Any:
    """Compute the outputs for all inputs, in their order.

    Args:
        task: An `AlbertTask`.
        x: See `AlbertTask.fit`.
        batch_size: int. Defaults to `None`, 32.
        run_batch: Callable from the inputs of a batch, a dict of arrays, to arrays with
            a value for each row. Defaults to `None`: `keras.Model.predict`.
        **kwargs: Other arguments of `keras.Model.predict`.

    Returns:
        See `AlbertTask.predict`.
    """
    data, batches = read_model_input(
        *(task, x),
        batch_size=batch_size,
        purpose="prediction",
        steps=kwargs.get("steps"),
    )
    examples: Any = None if batches is None else batches.examples
    # Rows of ids have one length, so that Keras can concatenate their outputs.
    holds_rows = isinstance(examples, IdRows)
    if examples is not None and not len(examples):
        return keras.tree.map_structure(
            lambda output: np.zeros((0, *(n or 0 for n in output.shape[1:])), "f"),
            task.output,
        )

    def compute() -> Any:
        if run_batch or (has_ragged_outputs(task) and not holds_rows):
            source = batches or data
            return predict_ragged(task, source, num_steps(data), run_batch, **kwargs)
        outputs = keras.Model.predict(task, data, **kwargs)
        if holds_rows:
            return blank_outputs(task, examples.batch[0], outputs)
        return outputs

    with kept_weights(task):
        outputs = run_on(compute, {"x": x})
    if batches is None or holds_rows:
        return outputs
    return batches.restore_order(outputs)


def predict_ragged(
    task: Any,
    batches: Any,
    num_batches: int | None = None,
    run_batch: Callable[[Any], Any] | None = None,
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
        run_batch: See `predict_all`. Defaults to `None`, `task.predict_on_batch`.
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
    run_batch = run_batch or task.predict_on_batch
    parts = []
    for index, batch in enumerate(islice(iterate(batches), steps)):
        inputs = real_rows(batch)
        inputs = inputs[0] if isinstance(inputs, tuple) else inputs
        outputs = run_batch(keras.tree.map_structure(np.asarray, inputs))
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


def iterate(batches: Any) -> Iterator[Any]:
    """Return an iterator over the batches of a data set of any kind."""
    if isinstance(batches, keras.utils.PyDataset):
        return (batches[index] for index in range(len(batches)))
    return iter(batches)
