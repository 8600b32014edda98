"""Outputs of models: all batches of a prediction, probabilities, and shapes."""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.data import model_input
from keras_albert.data.batch_sharding import num_parts, share_dataset, take_rows
from keras_albert.data.batches import LengthBatches
from keras_albert.data.datasets import Steps, call_and_reject_empty, num_steps
from keras_albert.data.tables import RawData
from keras_albert.devices.model_state import restore_on_error
from keras_albert.devices.processes import spans_processes
from keras_albert.layers.attention import packing_inputs
from keras_albert.text.packing import TextWindows
from keras_albert.types import FloatArray, Texts
from keras_albert.utils.arguments import check_options

if TYPE_CHECKING:
    from keras_albert.tasks.task import AlbertTask


def softmax(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return probabilities over the last axis, as an array of the same shape."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def mask_outputs(task: "AlbertTask", inputs: Any, outputs: Any) -> Any:
    """Overwrite outputs of padding, which depend on the width of the batch."""
    if task.output_mask is None:
        return outputs
    mask = np.asarray(inputs[task.output_mask]) > 0

    def mask_padding(symbolic: Any, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if symbolic.shape[1] is not None:
            return array
        kept = mask.reshape(mask.shape + (1,) * (array.ndim - mask.ndim))
        return np.where(kept, array, array.dtype.type(task.output_padding))

    return map_outputs(mask_padding, task.output, outputs)


def map_outputs(function: Callable[..., Any], *outputs: Any) -> Any:
    """Apply a function to the array of a model, or to each in its dict."""
    # Keras' `map_structure` takes ten times as long, each time a part of one text's.
    if any(isinstance(each, list | tuple) for each in outputs):
        return keras.tree.map_structure(function, *outputs)
    if not isinstance(outputs[0], dict):
        return function(*outputs)
    names = outputs[0]
    return {name: function(*(each[name] for each in outputs)) for name in names}


def predict_all(
    task: "AlbertTask",
    x: Any,
    batch_size: int | None = None,
    run_batch: Callable[[dict[str, Any]], Any] | None = None,
    **kwargs: Any,
) -> Any:
    """Compute the outputs for all inputs in their order, by `run_batch`."""
    check_options(type(task), "predict", kwargs)
    steps = kwargs.get("steps")
    may_pack = run_batch is None
    batches = model_input.make_batches(
        *(task, RawData(x), batch_size, "prediction"),
        steps=Steps(steps),
        may_pack=may_pack,
    )
    is_planned = isinstance(batches, LengthBatches)
    if is_planned and steps is not None and steps < len(batches):
        # Batches are of similar length, so the first ones are not the first examples.
        raise ValueError(
            f"`steps={steps}` ends a data set early, but `x` is not one: it has "
            f"{len(batches)} batches. Pass only the examples to predict."
        )
    if is_planned and not len(batches.examples):
        return keras.tree.map_structure(
            lambda output: np.zeros((0, *(n or 0 for n in output.shape[1:])), "f"),
            task.output,
        )

    def compute() -> Any:
        is_alone = num_parts() == 1 or spans_processes()
        if run_batch or is_alone or model_input.has_ragged_outputs(task):
            return predict_batches(task, batches, run_batch, **kwargs)
        # Devices share each batch.
        with restore_on_error(task):
            shared = share_dataset(task, batches, True)
            return check_nan(keras.Model.predict(task, shared, **kwargs))

    outputs = call_and_reject_empty(compute, {"x": x})
    return batches.restore_order(outputs) if is_planned else outputs


def check_nan(outputs: Any) -> Any:
    """Warn if training has diverged; a sum costs less than a look at each number."""
    is_dict = isinstance(outputs, dict)
    arrays = outputs.values() if is_dict else keras.tree.flatten(outputs)
    if any(np.isnan(array.sum()) and np.isnan(array).any() for array in arrays):
        warnings.warn(
            "The outputs are NaN: the model has diverged in training, or was loaded "
            "from weights that had. Train it again, with a lower learning rate.",
            stacklevel=3,
        )
    return outputs


def outputs_of(task: "AlbertTask", inputs: dict[str, Any]) -> Any:
    """Compute the outputs for one batch of ids."""
    if spans_processes():
        outputs = _compute_together(task, inputs)
    else:
        outputs = task.batch_outputs(inputs)
    return check_nan(mask_outputs(task, inputs, outputs))


def _compute_together(task: "AlbertTask", inputs: dict[str, Any]) -> Any:
    """Compute the outputs for one batch, which all processes of JAX were given."""
    import jax  # noqa: PLC0415  (it is the backend)
    from jax.experimental import multihost_utils  # noqa: PLC0415

    distribution: Any = keras.distribution.distribution()
    (rows, *_), count = take_rows(task, (inputs,)), len(inputs["token_ids"])

    def distribute(array: Any) -> Any:
        layout = distribution.get_data_layout(array.shape).backend_layout
        return jax.make_array_from_process_local_data(layout, array)

    run = task.batch_outputs.current_function().run_batch
    outputs = run({name: distribute(array) for name, array in rows.items()})
    return keras.tree.map_structure(
        lambda x: to_numpy(multihost_utils.process_allgather(x, tiled=True)[:count]),
        outputs,
    )


def predict_batches(
    task: "AlbertTask",
    batches: Any,
    run_batch: Callable[[dict[str, Any]], Any] | None = None,
    verbose: str | int = "auto",
    steps: int | None = None,
    callbacks: Any = None,
) -> Any:
    """Predict batch by batch, and concatenate the outputs in their order."""
    # `keras.Model.predict` builds a data set and an iterator for each call,
    # concatenates equal shapes only, and takes the weights out of the model on JAX.
    is_list = isinstance(callbacks, keras.callbacks.CallbackList)
    if not is_list and (verbose != 0 or callbacks):
        callbacks = keras.callbacks.CallbackList(
            callbacks,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=1,
            steps=steps or num_steps(batches),
            model=task,
        )
    if callbacks:
        task.stop_predicting = False
        callbacks.on_predict_begin()
    run_batch = run_batch or partial(outputs_of, task)
    parts = []
    for step, inputs in enumerate(islice(_iterate_inputs(task, batches), steps)):
        if callbacks:
            callbacks.on_predict_batch_begin(step)
        outputs = run_batch(inputs)
        parts.append(outputs)
        if callbacks:
            callbacks.on_predict_batch_end(step, {"outputs": outputs})
            if task.stop_predicting:
                break
    if callbacks:
        callbacks.on_predict_end()

    def join(*arrays: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if len(arrays) == 1:
            return arrays[0]
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

    return map_outputs(join, *parts)


def iterate(batches: Any) -> Iterator[Any]:
    """Return an iterator over the batches of a data set of any kind."""
    if isinstance(batches, keras.utils.PyDataset):
        size = batches.num_batches
        indices = count() if size is None else range(size)
        return (batches[index] for index in indices)
    return iter(batches)


def _iterate_inputs(task: "AlbertTask", batches: Any) -> Iterator[dict[str, Any]]:
    """Yield the model's inputs, which have been checked."""
    is_checked = isinstance(batches, LengthBatches)
    for batch in iterate(batches):
        x = batch[0] if isinstance(batch, tuple) else batch
        yield x if is_checked else {**task.read_ids(x), **packing_inputs(x)}


def to_numpy(tensor: Any) -> npt.NDArray[Any]:
    """Return a tensor as an array of NumPy."""
    # A copy, since arrays of JAX cannot be written to.
    return np.array(keras.ops.convert_to_numpy(tensor))


class DocumentOutputs:
    """One output for each document, as a mixin before `AlbertTask`."""

    predict: Any
    require_preprocessor: Any

    def predict_documents(
        self, texts: Texts, batch_size: int | None = None, stride: int | None = None
    ) -> FloatArray:
        """Compute the model's outputs for texts of any length.

        `predict` truncates a text that is longer than a row; this method splits it into
        overlapping windows. The outputs are the means over the windows, weighted by the
        number of tokens for which a window has the most context, so that each token
        counts once. A text that fits in a row has the same outputs as in `predict`.

        Args:
            texts: A text, or many.
            batch_size: int. Windows in a batch. Defaults to `None`, which means 32.
            stride: int or `None`. Distance in tokens between the starts of consecutive
                windows. Defaults to `None`, half a window.

        Returns:
            float32 array `(texts, width)`, for one text `(1, width)`, in the order of
            `texts`.

        Raises:
            ValueError: If the model has no preprocessor, a row is not a text, or
                `stride` is below 1 or above a window's length.

        Example:
            >>> from keras_albert import AlbertClassifier
            >>> sentiment = AlbertClassifier.from_preset("albert_small_en_uncased_sst2")
            >>> text = "A quiet, moving film with a superb cast. " * 100
            >>> sentiment.predict_documents([text, "so boring"]).argmax(axis=-1)
            array([1, 0])
        """
        return self.read_documents("predict_documents", texts, batch_size, stride)[0]

    def read_documents(
        self, method: str, texts: Texts, batch_size: int | None, stride: int | None
    ) -> tuple[FloatArray, bool]:
        """Return the outputs for `texts`, and whether they were a batch."""
        preprocessor = self.require_preprocessor(method)
        columns, batched = preprocessor.columns(texts)
        if len(columns) > 1:
            raise ValueError(
                "A document is one text, and these are pairs. Pass a list of texts, or "
                "pairs to the methods that truncate them."
            )
        windows = TextWindows(
            preprocessor.tokenizer.tokenize_rows(columns[0], checked=True),
            preprocessor.special_ids,
            preprocessor.max_length,
            stride,
        )
        outputs = self.predict(windows, batch_size, verbose=0)
        return self.merge_windows(windows, outputs), batched

    def merge_windows(self, windows: TextWindows, outputs: FloatArray) -> FloatArray:
        """Return the outputs `(texts, width)` for documents, merged over windows."""
        return windows.mean(outputs)
