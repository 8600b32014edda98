"""Predictions of a task: for a batch of arrays, for all inputs, for long texts."""

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, islice
from operator import is_
from typing import Any

import keras
import numpy as np
import numpy.typing as npt
from keras import ops

from keras_albert.data.batches import LengthBatches, has_ragged_outputs, make_batches
from keras_albert.data.datasets import Steps, call_and_reject_empty, num_steps
from keras_albert.data.tables import RawData, read_data
from keras_albert.devices.batch_sharding import share_dataset, take_rows
from keras_albert.devices.processes import num_parts, restore_on_error, spans_processes
from keras_albert.layers.base_layer import packing_inputs
from keras_albert.layers.torch_inference import fast_call
from keras_albert.text.windows import TextWindows
from keras_albert.types import FloatArray, Task, Texts
from keras_albert.utils.arguments import check_options
from keras_albert.utils.keras_internals import IN_USE, has_no_value

Run = Callable[[dict[str, Any]], Any]


def softmax(logits: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return probabilities over the last axis, as an array of the same shape."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def mask_outputs(task: Task, inputs: Any, outputs: Any) -> Any:
    """Overwrite outputs of padding, which depend on the width of the batch."""
    if task.traits.output_mask is None:
        return outputs
    mask = np.asarray(inputs[task.traits.output_mask]) > 0

    def mask_padding(symbolic: Any, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if symbolic.shape[1] is not None:
            return array
        kept = mask.reshape(mask.shape + (1,) * (array.ndim - mask.ndim))
        return np.where(kept, array, array.dtype.type(task.traits.output_padding))

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


class PredictFunction:
    """A function from one batch of ids to the model's outputs, for several threads."""

    # What is compiled (on TensorFlow a graph, on JAX a program for each shape) is kept
    # until the model has other variables.

    def __init__(self, task: Task) -> None:
        self._task = task
        self._lock = threading.RLock()
        self._variables: list[Any] = []
        self._made: dict[Any, Any] = {}

    def __call__(self, inputs: dict[str, Any], num_layers: int | None = None) -> Any:
        """Compute the outputs, as arrays of NumPy."""
        specs = self._task.input
        inputs = {
            name: np.asarray(array, specs[name].dtype) if name in specs else array
            for name, array in inputs.items()
        }
        return map_outputs(to_numpy, self.compiled(num_layers)(inputs))

    def compiled(self, num_layers: int | None = None) -> Run:
        """Return the function of arrays that runs some layers."""
        task = self._task
        depth = task.backbone.num_layers if num_layers is None else num_layers
        return self.cached(depth, lambda: _compile(task, depth))

    def cached(self, name: Any, make: Callable[[], Any]) -> Any:
        """Return what `make` returns, which is kept until the model has changed."""
        with self._lock:
            known, variables = self._variables, self._task.variables
            if len(known) != len(variables) or not all(map(is_, known, variables)):
                self.reset()
                self._variables = variables
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]

    def reset(self) -> None:
        """Drop what is compiled, for a model that computes something else."""
        with self._lock:
            self._made = {}


def _compile(task: Task, num_layers: int) -> Run:
    """Compile the model for one batch of arrays."""

    def run(inputs: dict[str, Any]) -> Any:
        return fast_call(task, inputs, training=False, num_layers=num_layers)

    if _overrides_step(task):
        if num_layers != task.backbone.num_layers:
            raise ValueError(
                "`num_layers` runs the model, but this one has a `predict_step` of its "
                "user. Leave out `num_layers`, or load the preset with it."
            )
        run = partial(_run_step, task)
    if task.run_eagerly:
        return lambda inputs: run(map_outputs(ops.convert_to_tensor, inputs))
    if task.strategy is not None and num_layers == task.backbone.num_layers:
        # Replicas divide the rows.
        task.predict_function = None
        predict = task.make_predict_function()
        return lambda inputs: predict([(inputs,)])
    return _COMPILERS[keras.config.backend()](task, run)


def _overrides_step(task: Task) -> bool:
    classes = (cls for cls in type(task).__mro__ if "predict_step" in vars(cls))
    is_ours = next(classes).__module__.startswith("keras_albert.")
    return "predict_step" in vars(task) or not is_ours


def _run_step(task: Task, inputs: dict[str, Any]) -> Any:
    """Run a user's `predict_step`, which on JAX takes the values of variables."""
    if keras.config.backend() != "jax":
        return task.predict_step((inputs,))
    groups = task.trainable_variables, task.non_trainable_variables
    state = [[variable.value for variable in group] for group in groups]
    return task.predict_step(state, (inputs,))[0]


def _compile_for_tensorflow(task: Task, run: Run) -> Run:
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    is_compiled = task.jit_compile is True
    function = tf.function(run, autograph=False, jit_compile=is_compiled or None)
    programs: dict[Any, Any] = {}

    def run_program(inputs: dict[str, Any]) -> Any:
        tensors = map_outputs(tf.convert_to_tensor, inputs)
        # TensorFlow's own search for a program compares the shapes of all calls, and
        # takes as long as a layer; for a second shape it would trace again.
        key = tuple((name, x.dtype, x.shape.rank) for name, x in tensors.items())
        if key not in programs:
            specs = {
                name: tf.TensorSpec([None] * rank, dtype) for name, dtype, rank in key
            }
            programs[key] = function.get_concrete_function(specs)
        return programs[key](tensors)

    return run_program


def _compile_for_torch(task: Task, run: Run) -> Run:
    import torch  # noqa: PLC0415  (it is the backend)

    device = task.variables[0].value.device
    # Keras' `convert_to_tensor` takes longer than a layer of a few tokens.
    convert = partial(torch.as_tensor, device=device)

    # Each operation costs less than with Keras' `no_grad`.
    @torch.inference_mode()
    def run_tensors(inputs: dict[str, Any]) -> Any:
        return run(map_outputs(convert, inputs))

    return run_tensors


def compile_function(model: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that reads the weights of a model, as for `predict`."""
    backend = keras.config.backend()
    if backend == "tensorflow":
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        # One program for all shapes.
        return tf.function(function, autograph=False, reduce_retracing=True)
    if backend == "torch":
        import torch  # noqa: PLC0415  (it is the backend)

        return torch.no_grad()(function)
    import jax  # noqa: PLC0415  (it is the backend)

    variables = model.variables

    @jax.jit
    def compiled(values: list[Any], *arguments: Any) -> Any:
        with keras.StatelessScope(list(zip(variables, values, strict=True))):
            return function(*arguments)

    return lambda *arguments: call_with_values(compiled, variables, *arguments)


def call_with_values(
    function: Callable[..., Any], variables: Sequence[Any], *arguments: Any
) -> Any:
    """Call a function of JAX with the values of variables."""
    values: list[Any] = []
    try:
        values += [variable.value for variable in variables]
        return function(values, *arguments)
    except Exception as error:
        taken = any(map(has_no_value, variables))
        if taken or any(value.is_deleted() for value in values):
            raise RuntimeError(IN_USE) from error
        raise


_COMPILERS: dict[str, Callable[[Task, Run], Run]] = {
    "tensorflow": _compile_for_tensorflow,
    "jax": compile_function,
    "torch": _compile_for_torch,
}


def predict_all(
    task: Task,
    x: Any,
    batch_size: int | None = None,
    run_batch: Run | None = None,
    num_layers: int | None = None,
    **kwargs: Any,
) -> Any:
    """Compute the outputs for all inputs in their order, by `run_batch`."""
    check_options(type(task), "predict", kwargs)
    steps = kwargs.get("steps")
    may_pack = run_batch is None
    data = RawData(x)
    if not hasattr(type(x), "pack"):
        columns = task.traits.columns._replace(label=None)
        data = read_data(x, columns=columns, batch_size=batch_size)
    batches = make_batches(
        *(task, data, batch_size, "prediction"), steps=Steps(steps), may_pack=may_pack
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
        is_jax = keras.config.backend() == "jax"
        is_alone = not is_jax or num_parts() == 1 or spans_processes()
        is_own = run_batch or num_layers or has_ragged_outputs(task)
        if is_own or is_alone:
            run = run_batch or partial(outputs_of, task, num_layers=num_layers)
            return predict_batches(task, batches, run, **kwargs)
        # Devices share each batch.
        with restore_on_error(task):
            shared = share_dataset(task, batches, True)
            return check_nan(keras.Model.predict(task, shared, **kwargs))

    outputs = compute() if is_planned else call_and_reject_empty(compute, {"x": x})
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


def outputs_of(
    task: Task, inputs: dict[str, Any], num_layers: int | None = None
) -> Any:
    """Compute the outputs for one batch of ids."""
    if keras.config.backend() == "jax" and spans_processes():
        outputs = _compute_together(task, inputs, num_layers)
    else:
        outputs = task.run_batch(inputs, num_layers)
    return check_nan(mask_outputs(task, inputs, outputs))


def _compute_together(
    task: Task, inputs: dict[str, Any], num_layers: int | None
) -> Any:
    """Compute the outputs for one batch, which all processes of JAX were given."""
    import jax  # noqa: PLC0415  (it is the backend)
    from jax.experimental import multihost_utils  # noqa: PLC0415

    distribution: Any = keras.distribution.distribution()
    (rows, *_), count = take_rows(task, (inputs,)), len(inputs["token_ids"])

    def distribute(array: Any) -> Any:
        layout = distribution.get_data_layout(array.shape).backend_layout
        return jax.make_array_from_process_local_data(layout, array)

    run = task.run_batch.compiled(num_layers)
    outputs = run({name: distribute(array) for name, array in rows.items()})
    return keras.tree.map_structure(
        lambda x: to_numpy(multihost_utils.process_allgather(x, tiled=True)[:count]),
        outputs,
    )


def predict_batches(
    task: Task,
    batches: Any,
    run_batch: Run,
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
                    constant_values=task.traits.output_padding,
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


def _iterate_inputs(task: Task, batches: Any) -> Iterator[dict[str, Any]]:
    """Yield the model's inputs, which have been checked."""
    is_checked = isinstance(batches, LengthBatches)
    for batch in iterate(batches):
        x = batch[0] if isinstance(batch, tuple) else batch
        yield x if is_checked else {**task.read_ids(x), **packing_inputs(x)}


def to_numpy(tensor: Any) -> npt.NDArray[Any]:
    """Return a tensor as an array of NumPy."""
    # A copy, since arrays of JAX cannot be written to.
    return np.array(keras.ops.convert_to_numpy(tensor))


class UntrainedHeadWarning:
    """A warning if predictions use a head that was never trained."""

    # It compares the first rows of the matrices with those that the constructor made.

    def __init__(self, task: Task) -> None:
        in_backbone = {id(weight) for weight in task.backbone.weights}
        self._rows = [
            # A copy, since PyTorch would return a view.
            (layer.name, weight, keras.ops.copy(keras.ops.stop_gradient(weight[0])))
            for layer in task.layers
            for weight in layer.trainable_weights
            if len(weight.shape) > 1 and id(weight) not in in_backbone
        ]
        self._checked: set[str] = set()

    def is_random(self, layer: str | None = None) -> bool:
        """Return whether all rows, or one layer's, are as they were made."""
        rows = [row[1:] for row in self._rows if layer in (None, row[0])]
        # On JAX `fit` in another thread has the values.
        if not rows or any(has_no_value(weight) for weight, _ in rows):
            return False
        to_numpy = keras.ops.convert_to_numpy
        return all(np.array_equal(to_numpy(w[0]), to_numpy(row)) for w, row in rows)

    def warn(self, task: Task, method: str, layer: str | None = None) -> None:
        """Warn once if an untrained head is used for predictions."""
        if method in self._checked:
            return
        self._checked.add(method)
        if self.is_random(layer):
            msg = (
                f"The head of this {type(task).__name__} that `{method}` uses has "
                "random weights, so the result means nothing: call `fit`, or load a "
                "preset that was saved with the head."
            )
            warnings.warn(msg, stacklevel=3)


def predict_windows(
    task: Task,
    method: str,
    texts: Texts,
    batch_size: int | None,
    stride: int | None,
    **kwargs: Any,
) -> tuple[FloatArray, bool]:
    """Return the outputs for texts of any length, and whether they were a batch."""
    # The means over windows, weighted by the number of tokens for which a window has
    # the most context, so that each token counts once.
    preprocessor = task.require_preprocessor(method)
    columns, batched = preprocessor.columns(texts)
    if len(columns) > 1:
        raise ValueError(
            "`truncate=False` reads single texts, and these are pairs. Pass a list of "
            "texts, or leave it out."
        )
    windows = TextWindows(
        preprocessor.tokenizer.tokenize_rows(columns[0], checked=True),
        preprocessor.special_ids,
        preprocessor.max_length,
        stride,
    )
    outputs = predict_all(task, windows, batch_size, **{"verbose": 0, **kwargs})
    return windows.mean(outputs), batched
