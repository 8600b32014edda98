"""The shard of a batch that a process computes, padded to divide among devices."""

from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import numpy as np

from keras_albert.data import datasets
from keras_albert.devices.model_state import build_metrics
from keras_albert.devices.processes import SAME_BATCHES
from keras_albert.types import Batch

if TYPE_CHECKING:
    from keras_albert.tasks.task import AlbertTask

# Inputs that no model reads: on JAX, whose steps see the rows of all processes, with a
# column more than there are rows to remove; on the others with a second column if all
# processes have the same rows.
PADDING, WHOLE = "padding_rows", "whole_batch"


class ShardSpec(NamedTuple):
    """Which rows of a batch this process computes, for its devices."""

    # A batch is padded to a multiple of `parts`, and each of `num_shards` processes or
    # groups of processes takes as many rows.
    parts: int
    shard: int = 0
    num_shards: int = 1


def num_parts() -> int:
    """Return the number of parts of a batch under `keras.distribution`, or 1."""
    if keras.config.backend() != "jax":
        return 1
    distribution = keras.distribution.distribution()
    if distribution is None:
        return 1
    mesh = distribution.device_mesh
    return int(mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)])


def shard_spec(task: "AlbertTask") -> ShardSpec | None:
    """Return the rows of this process, or `None` if it computes all on one device."""
    processes, parts = task.processes, num_parts()
    has_all = processes is None or processes.shares_data
    distribution = keras.distribution.distribution()
    if keras.config.backend() != "jax" or distribution is None:
        if processes is None or not has_all:
            return None
        replicas = getattr(task.strategy, "num_replicas_in_sync", processes.count)
        return ShardSpec(replicas, processes.index, processes.count)
    import jax  # noqa: PLC0415  (it is the backend)

    shards = min(int(jax.process_count()), parts)
    if not has_all:
        return ShardSpec(parts // shards)
    spec = ShardSpec(parts, distribution.data_shard_id if shards > 1 else 0, shards)
    return None if parts == 1 else spec


def share_batch(task: "AlbertTask", batch: Batch, spec: ShardSpec) -> Batch:
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
    task: "AlbertTask", dataset: Any, is_same: bool, fixed_targets: bool = False
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
            # The first one, which is read before the training begins.
            unchecked.clear()
            processes.check_same({"batches": batch}, SAME_BATCHES)
        return share_batch(task, batch, spec)

    if datasets.is_tf_dataset(dataset):
        if keras.config.backend() == "tensorflow":
            return datasets.map_tf_batches(dataset, take, WHOLE)
        dataset = datasets.numpy_batches(dataset)
    return datasets.map_dataset(dataset, take, fixed_targets=fixed_targets)


def build_before(task: "AlbertTask", dataset: Any) -> Any:
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


def take_rows(task: "AlbertTask", batch: Batch) -> Batch:
    """Take the rows of this process, with padding, if devices share batches."""
    spec = shard_spec(task)
    return batch if spec is None else share_batch(task, batch, spec)


def pad_for_devices(task: "AlbertTask", batch: Batch) -> Batch:
    """Take the rows of this process for a method of `keras.Model`, with padding."""
    if shard_spec(task) is None:
        return batch
    build_metrics(task, batch)
    return take_rows(task, batch)
