"""Padding of batches with rows, so that devices share them evenly."""

from itertools import chain
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_albert.tasks.distribution.model_state import build_metrics
from keras_albert.tasks.inputs.datasets import is_tf_dataset, map_dataset, numpy_batches
from keras_albert.types import Batch, Int64Array

if TYPE_CHECKING:
    from keras_albert.tasks.base.task import AlbertTask

# An input that no model reads, with one column more than there are rows to remove.
_PADDING = "padding_rows"


def num_parts() -> int:
    """Return the number of parts of a batch under `keras.distribution`, or 1."""
    if keras.config.backend() != "jax":
        return 1
    distribution = keras.distribution.distribution()
    if distribution is None:
        return 1
    import jax  # noqa: PLC0415  (it is the backend)

    mesh = distribution.device_mesh
    parts = mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)]
    processes: int = jax.process_count()
    return max(1, int(parts) // processes)


def pad_batch(batch: Batch, parts: int) -> Batch:
    """Repeat the last row until devices can share a batch; see `unpad_batch`."""
    rows = len(keras.tree.flatten(batch)[0])
    missing = -rows % parts
    numbers = np.minimum(np.arange(rows + missing), rows - 1)
    x, *rest = keras.tree.map_structure(
        lambda array: None if array is None else np.asarray(array)[numbers], batch
    )
    return ({**x, _PADDING: np.zeros((rows + missing, missing + 1), "int8")}, *rest)


def unpad_batch(batch: Any) -> Any:
    """Remove the rows that `pad_batch` added to a batch, within a step."""
    x = batch[0] if isinstance(batch, tuple) else batch
    if not isinstance(x, dict) or _PADDING not in x:
        return batch
    rows, columns = x[_PADDING].shape
    x = {name: ids for name, ids in x.items() if name != _PADDING}
    batch = (x, *batch[1:]) if isinstance(batch, tuple) else x
    if columns == 1:
        return batch
    count = rows - columns + 1
    return keras.tree.map_structure(
        lambda array: None if array is None else array[:count], batch
    )


def pad_dataset(dataset: Any) -> Any:
    """Pad each batch of a data set, if devices share batches."""
    parts = num_parts()
    if parts == 1:
        return dataset
    if is_tf_dataset(dataset):
        dataset = numpy_batches(dataset)

    def pad(batch: Any) -> Batch:
        return pad_batch(batch if isinstance(batch, tuple) else (batch,), parts)

    return map_dataset(dataset, pad)


def build_before(task: "AlbertTask", dataset: Any) -> Any:
    """Build metrics from the first batch if it has extra inputs: packing or padding."""
    shares_rows = getattr(task.preprocessor, "pack_sequences", False)
    is_plain = num_parts() == 1 and not shares_rows
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


def pad_for_devices(task: "AlbertTask", batch: Batch) -> Batch:
    """Pad a batch for a method of `keras.Model`, if devices share it."""
    parts = num_parts()
    if parts == 1:
        return batch
    build_metrics(task, batch)
    return pad_batch(batch, parts)


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
        picked: Batch = keras.tree.map_structure(
            lambda array: None if array is None else array[rows], self.batch
        )
        return picked
