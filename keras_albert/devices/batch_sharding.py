"""The shard of a batch that a process computes, padded to divide among devices."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import keras
import numpy as np

from keras_albert.data import datasets
from keras_albert.data.batches import LengthBatches, has_ragged_outputs
from keras_albert.devices.processes import SAME_BATCHES, ShardSpec, shard_spec
from keras_albert.types import Batch, Task

# Inputs that no model reads: on JAX, whose steps see the rows of all processes, with a
# column more than there are rows to remove; on the others with a second column if all
# processes have the same rows.
PADDING, WHOLE = "padding_rows", "whole_batch"


def share_batch(task: Task, batch: Batch, spec: ShardSpec) -> Batch:
    """Return the rows of this process, with a mark; see `unpad_batch`."""
    rows = len(keras.tree.flatten(batch)[0])
    if (backend := keras.config.backend()) != "jax":
        # TensorFlow's replicas take equally many rows, PyTorch's processes any.
        lacking = rows < spec.parts if backend == "torch" else rows % spec.parts
        whole = bool(task.compares_rows or lacking)
        shard, num_shards = (0, 1) if whole else (spec.shard, spec.num_shards)
        begin, end = (rows * n // num_shards for n in (shard, shard + 1))
        x, *rest = _pick(batch, np.arange(begin, end))
        return ({**x, WHOLE: np.zeros((end - begin, 1 + whole), "int8")}, *rest)
    missing = -rows % spec.parts
    if missing and task.processes is not None and not task.processes.shares_data:
        raise ValueError(
            f"{rows} rows of this process cannot be divided among its {spec.parts} "
            "devices. Drop the last rows of its part, or choose another `batch_size`; "
            "or pass all processes the whole data, and leave out `auto_shard=False`."
        )
    size = (rows + missing) // spec.num_shards
    numbers = np.minimum(np.arange(size) + spec.shard * size, rows - 1)
    x, *rest = _pick(batch, numbers)
    return ({**x, PADDING: np.zeros((size, missing + 1), "int8")}, *rest)


def _pick(batch: Batch, numbers: Any) -> Batch:
    return keras.tree.map_structure(
        lambda array: None if array is None else np.asarray(array)[numbers], batch
    )


def is_replicated(x: Any) -> bool:
    """Return whether all processes compute all rows of a batch; the first counts."""
    return WHOLE in x and x[WHOLE].shape[1] == 2


def without_mark(x: Any) -> Any:
    """Return inputs without the mark of `share_batch`."""
    return {name: ids for name, ids in x.items() if name not in (PADDING, WHOLE)}


def unpad_batch(batch: Any) -> Any:
    """Remove the rows that `share_batch` added to a batch, within a step."""
    x = batch[0] if isinstance(batch, tuple) else batch
    if not isinstance(x, dict) or PADDING not in x:
        return batch
    rows, columns = x[PADDING].shape
    x = without_mark(x)
    batch = (x, *batch[1:]) if isinstance(batch, tuple) else x
    if columns == 1:
        return batch
    count = rows - columns + 1
    return keras.tree.map_structure(
        lambda array: None if array is None else array[:count], batch
    )


def share_dataset(
    task: Task, dataset: Any, is_same: bool, fixed_targets: bool = False
) -> Any:
    """Take the rows of this process from each batch, if devices share batches."""
    # `is_same`: the batches are known to be the same in all processes.
    spec = shard_spec(task)
    if spec is None:
        return dataset
    processes = task.processes
    unchecked = [] if is_same or processes is None or not processes.shares_data else [1]

    def take(batch: Any) -> Batch:
        batch = batch if isinstance(batch, tuple) else (batch,)
        if unchecked:
            # The first one, which is read before training starts.
            unchecked.clear()
            processes.check_same({"batches": batch}, SAME_BATCHES)
        return share_batch(task, batch, spec)

    if datasets.is_tf_dataset(dataset):
        if keras.config.backend() == "tensorflow":
            return datasets.map_tf_batches(dataset, take, WHOLE)
        dataset = datasets.numpy_batches(dataset)
    return datasets.map_dataset(dataset, take, fixed_targets=fixed_targets)


def as_dataset(task: Task, batches: Any) -> Any:
    """Return batches in the form that Keras takes, of the rows of this process."""
    is_planned, fixed = isinstance(batches, LengthBatches), not has_ragged_outputs(task)
    shared = share_dataset(task, batches, is_planned, fixed)
    if shared is batches and is_planned:
        return datasets.backend_dataset(batches, fixed)
    return shared


def build_before(task: Task, dataset: Any) -> Any:
    """Build metrics from the first batch if it has extra inputs: packing or padding."""
    shares_rows = getattr(task.preprocessor, "pack_sequences", False)
    is_plain = shard_spec(task) is None and not shares_rows
    if is_plain or keras.config.backend() == "tensorflow":
        return dataset
    if isinstance(dataset, keras.utils.PyDataset):
        build_metrics(task, unpad_batch(dataset[0]))
        return dataset
    batches = iter(dataset)
    first = next(batches, None)
    if first is None:
        return iter(())
    build_metrics(task, unpad_batch(first))
    # A generator, since Keras takes no other iterator.
    return (batch for batch in chain([first], batches))


def take_rows(task: Task, batch: Batch) -> Batch:
    """Take the rows of this process, with padding, if devices share batches."""
    spec = shard_spec(task)
    return batch if spec is None else share_batch(task, batch, spec)


def pad_for_devices(task: Task, batch: Batch) -> Batch:
    """Take the rows of this process for a method of `keras.Model`, with padding."""
    if shard_spec(task) is None:
        return batch
    build_metrics(task, batch)
    return take_rows(task, batch)


# An input that no model reads: for each row, the number of masked tokens of its process
# in an optimizer step, by which the process normalized the weights.
MASKED_TOKENS = "masked_tokens"


def weigh_processes(batch: Any, processes: Any = None) -> Any:
    """Normalize the weights of a process over all processes, within a training step."""
    x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    if not isinstance(x, dict) or MASKED_TOKENS not in x:
        return batch
    x = dict(x)
    counts = keras.ops.convert_to_tensor(x.pop(MASKED_TOKENS))
    share = counts / _mean_of_processes(keras.ops.mean(counts), processes)

    def weigh(weight: Any) -> Any:
        return keras.ops.convert_to_tensor(weight) * share[:, None]

    if isinstance(weights, dict):
        weights = weights | {"masked_lm": weigh(weights["masked_lm"])}
    else:
        weights = weigh(weights)
    return x, y, weights


def _mean_of_processes(value: Any, processes: Any) -> Any:
    # On PyTorch the task knows the processes, on TensorFlow the strategy does.
    if processes is not None:
        (total,) = processes.sum_tensors([value])
        value = total / processes.count
    elif keras.config.backend() == "tensorflow":
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        context = tf.distribute.get_replica_context()
        value = context.all_reduce(tf.distribute.ReduceOp.MEAN, value)
    # On JAX, arrays have the rows of all processes.
    return value


def build_metrics(model: Any, batch: Any) -> None:
    """Create the variables of a model's losses and metrics by a batch's shapes."""
    # Keras creates them in `fit`, too late to place or to restore them, by a batch of
    # an iterator on which it may not train.

    def describe(array: Any) -> keras.KerasTensor:
        # One row is enough, and two tokens where the length is not known.
        shape = (1, *(size or 2 for size in array.shape[1:]))
        return keras.KerasTensor(shape, keras.backend.standardize_dtype(array.dtype))

    def fill(spec: Any) -> Any:
        return keras.ops.ones(spec.shape, spec.dtype)

    x, y, weights = keras.utils.unpack_x_y_sample_weight(batch)
    x = {name: x[name] for name in model.input}
    # By the model's `call`, which a task may override.
    outputs = keras.Operation.compute_output_spec(
        model, keras.tree.map_structure(describe, x), training=False
    )
    x, y, weights = keras.tree.map_structure(
        describe, (x, y, weights), none_is_leaf=False
    )
    # Nothing is counted in this scope; variables are created when it ends.
    with keras.StatelessScope():
        outputs, x, y, weights = keras.tree.map_structure(
            fill, (outputs, x, y, weights), none_is_leaf=False
        )
        model.compute_loss(x, y, outputs, weights)
        model.compute_metrics(x, y, outputs, weights)


def build_metrics_before_xla(model: Any, batch: Any) -> None:
    """Create metrics while TensorFlow traces a step: XLA creates no variables."""
    if keras.config.backend() == "tensorflow" and model.jit_compile is True:
        import tensorflow as tf  # noqa: PLC0415  (it is the backend)

        with tf.init_scope():
            build_metrics(model, batch)


_BY_WEIGHT = "mean_with_sample_weight"


def losses_by_weight(model: Any, weights: Any) -> list[Any]:
    """Return the losses that divide by the sum of weights, if there are weights."""
    loss = None if weights is None else model.loss
    losses = loss.values() if isinstance(loss, dict) else [loss]
    return [each for each in losses if getattr(each, "reduction", "") == _BY_WEIGHT]


@contextmanager
def summed(losses: Sequence[Any]) -> Iterator[None]:
    """Set losses by weight to sum what is weighted, as `divide_weights` returns it."""
    for loss in losses:
        loss.reduction = "sum"
    try:
        yield
    finally:
        for loss in losses:
            loss.reduction = _BY_WEIGHT


def divide_weights(
    loss: Any, losses: Sequence[Any], weights: Any, total: Callable[[Any], Any]
) -> Any:
    """Divide the weights of `losses` by their `total`, in place of the loss."""

    def divide(weight: Any, loss: Any) -> Any:
        if weight is None or all(loss is not each for each in losses):
            return weight
        return keras.ops.divide_no_nan(weight, total(weight))

    if not isinstance(loss, dict):
        return divide(weights, loss)
    named = weights if isinstance(weights, dict) else dict.fromkeys(loss, weights)
    return {name: divide(named[name], loss[name]) for name in named}
