"""Batches of `x` and `y` for the model: of similar length, or of a data set.

`make_batches` encodes examples in memory once, as `LengthBatches`, or `PackedBatches`
whose texts share rows. The batches of a data set are encoded when they are read.
"""

import copy
import math
from typing import Any, Self

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.data import datasets
from keras_albert.data.tables import Columns, RawData, are_ids, is_dataset, read_element
from keras_albert.layers.base_layer import ROW_TOKENS, TOKEN_PLACES
from keras_albert.text.packing import (
    SAMPLE,
    Examples,
    PackedShape,
    check_counts,
    lengths_by_text,
    pack_all,
    packed_inputs,
    plan_batches,
    plan_packed_batches,
    read_weights,
    weights_by_target,
)
from keras_albert.types import Batch, Int64Array, Mode, Task
from keras_albert.utils.arguments import check_positive

_BATCH_SIZE = 32


def make_batches(
    task: Task,
    data: RawData,
    batch_size: int | None = None,
    mode: Mode = "evaluation",
    shuffle: bool = False,
    steps: datasets.Steps = datasets.Steps(),  # noqa: B008  (it is immutable)
    may_pack: bool = True,
) -> Any:
    """Return `LengthBatches` of examples, or a data set of preprocessed batches."""
    numbers = {"batch_size": batch_size, steps.option: steps.number}
    check_positive(**{name: n for name, n in numbers.items() if n is not None})
    x, is_encoded = data.x, hasattr(type(data.x), "pack")
    has_ids = not is_encoded and are_ids(task.preprocessor, x)
    shape = packed_shape(task) if may_pack and not has_ids else None
    if not is_encoded and is_dataset(x):
        if data.y is not None or data.sample_weight is not None:
            raise ValueError(
                "A data set has its own targets and weights, as (x, y) or "
                "(x, y, sample_weight). Leave out `y` and `sample_weight`, or pass "
                "`list(x)` if it is texts."
            )
        data = data._replace(x=datasets.check_dataset(x, steps))
        return _read_dataset(task, data, mode, shuffle, steps.argument, shape)
    examples = _encode(task, mode, data)
    if mode != "prediction" and not len(examples):
        raise ValueError("There are no examples: `x` is empty. Pass at least one text.")
    batch_size = batch_size or _BATCH_SIZE
    has_part = task.processes is not None and not task.processes.shares_data
    if has_part and mode != "prediction":
        batch_size = _own_batch_size(task, batch_size, len(examples))
    width = int if has_ids else task.preprocessor.padded_length
    how = (examples, width, batch_size, shuffle)
    # Small predictions reuse the unpacked program.
    is_small = mode == "prediction" and len(examples) <= batch_size
    if shape is None or is_small:
        return LengthBatches(*how)
    return PackedBatches(*how, shape=shape)


def _own_batch_size(task: Task, batch_size: int, rows: int) -> int:
    """Return the batch size of a process that has a part of the data, after checks."""
    processes = task.processes
    if batch_size % processes.count:
        raise ValueError(
            f"`batch_size` counts the rows of all processes, but {batch_size} cannot "
            f"be divided among {processes.count}. Choose a multiple."
        )
    own = int(batch_size // processes.count)
    steps = rows if keras.config.backend() == "jax" else -(-rows // own)
    processes.check_same(
        {
            "batches in its part of the data": steps,
            "classes in its targets": [
                getattr(task, x) for x in task.traits.set_by_targets
            ],
        },
        "Divide the data evenly, and pass the classes to the task, `labels=[...]`.",
    )
    return own


def has_ragged_outputs(model: keras.Model) -> bool:
    """Return whether an output is as long as the longest row of a batch."""
    outputs = keras.tree.flatten(model.output)
    return any(None in output.shape[1:] for output in outputs)


def check_targets(task: Task, x: Any, y: Any, mode: Mode) -> None:
    """Raise if targets are missing that a mode needs."""
    makes_targets = task.is_self_supervised and (
        task.traits.ids_have_targets or not are_ids(task.preprocessor, x)
    )
    if y is None and mode != "prediction" and not makes_targets:
        raise ValueError(
            "A loss needs targets. Pass `(x, y)`, also as batches of a data set and as "
            '`validation_data`; for a table `label="COLUMN"`; for pairs '
            "`((first, second), y)`."
        )


def preprocess_batch(
    task: Task, mode: Mode, x: Any, y: Any = None, sample_weight: Any = None
) -> tuple[Any, ...]:
    """Preprocess one batch of texts, or check one of ids; return a tuple of arrays."""
    examples = _encode(task, mode, RawData(x, y, sample_weight))
    width = _width_of(task.preprocessor, x)
    return _as_tuple(*pack_all(examples, width, batched=True))


def _encode(task: Task, mode: Mode, data: RawData) -> Any:
    """Read and check texts or ids, once; return them as `Examples`."""
    x, y, weights, *_ = data
    if hasattr(type(x), "pack"):
        # The task has encoded them.
        return x
    if mode == "prediction":
        y = weights = None
    check_targets(task, x, y, mode)
    if are_ids(task.preprocessor, x):
        return _encode_ids(task, mode, x, y, weights)
    columns = task.preprocessor.columns(x)
    if not columns.batched:
        raise _single(x)
    if y is not None and not data.is_encoded:
        y = task.encode_targets(y)
    if weights is not None:
        weights = task.read_weights(weights)
    return task.encode_texts(mode, columns, y, weights)[0]


def _encode_ids(task: Task, mode: Mode, x: Any, y: Any, weights: Any) -> Any:
    ids = task.read_ids(x)
    targets = None if y is None else task.encode_id_targets(y)
    if weights is not None:
        axes = max([1, *map(np.ndim, keras.tree.flatten(targets))])
        weights = read_weights(weights, axes)
    check_counts(len(ids["token_ids"]), targets, weights)
    task.check_id_targets(ids, targets, mode)
    if targets is None and weights is not None:
        # Ignored by the task; a `tf.data.Dataset` cannot contain `None`.
        targets = np.zeros(len(weights), "float32")
    return IdRows(_as_tuple(ids, targets, weights_by_target(targets, weights)))


def _single(x: Any) -> ValueError:
    return ValueError(
        "Pass a list of examples, or a data set with `.batch(32)`. Received a single "
        f"one: {str(x)[:80]!r}. If the elements of a tuple are examples, pass "
        "`list(x)`."
    )


def _width_of(preprocessor: Any, x: Any) -> Any:
    """Return the function from the longest row of a batch to the width of the batch."""
    return int if are_ids(preprocessor, x) else preprocessor.padded_length


def _as_tuple(x: Any, y: Any, sample_weight: Any) -> Batch:
    batch = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
    return batch if isinstance(batch, tuple) else (batch,)


def _read_dataset(
    task: Task,
    data: RawData,
    mode: Mode,
    shuffle: bool,
    argument: str,
    shape: PackedShape | None,
) -> Any:
    """Return a data set of preprocessed batches, in `tf.data`'s graph if possible."""
    dataset, columns = data.x, data.columns
    if mode == "prediction":
        columns = columns._replace(label=None)
    if datasets.is_tf_dataset(dataset):
        dataset = datasets.without_autotune(dataset)
        is_graph = task.preprocessor is None or task.preprocessor.runs_in_graph
        if is_graph and task.traits.encodes_in_graph and shape is None:
            return _map_tf_dataset(task, dataset, mode, columns)
        dataset = datasets.numpy_batches(dataset)
    collates = datasets.is_collated(dataset)
    if not datasets.dataset_size(dataset):
        # Empty, or of unknown size.
        dataset = datasets.check_first(dataset, argument)

    def preprocess(element: Any) -> tuple[Any, ...]:
        if collates:
            element = datasets.undo_collation(element)
        x, y, sample_weight = read_element(element, columns)
        batch = preprocess_batch(task, mode, x, y, sample_weight)
        if shape is None or are_ids(task.preprocessor, x):
            return batch
        return pack_sequences(batch, shape)

    return datasets.map_dataset(
        dataset, preprocess, shuffle, not has_ragged_outputs(task)
    )


def _map_tf_dataset(task: Task, dataset: Any, mode: Mode, columns: Columns) -> Any:
    """Preprocess in the graph; rows of ids are not changed."""
    import tensorflow as tf  # noqa: PLC0415  (a `tf.data.Dataset` was given)

    # Autograph would put a traceback before each message.
    @tf.autograph.experimental.do_not_convert
    def preprocess(*element: Any) -> Any:
        x, y, sample_weight = read_element(element, columns)
        if mode == "prediction":
            y = sample_weight = None
        check_targets(task, x, y, mode)
        has_ids = are_ids(task.preprocessor, x)
        shape = x["token_ids"].shape if has_ids else tf.nest.flatten(x)[0].shape
        if shape.rank == (len(task.input["token_ids"].shape) - 1 if has_ids else 0):
            raise _single(x)
        if not has_ids:
            is_column = isinstance(x, tf.Tensor) and shape[1:] == [1]
            x = task.preprocessor(tf.squeeze(x, 1) if is_column else x)
        if y is not None and not task.is_self_supervised:
            # In Python, for errors that name the row of a wrong label.
            dtype = tf.as_dtype(task.target_dtype)
            y = tf.numpy_function(task.encode_targets, [y], dtype)
            y = tf.ensure_shape(y, (None, *task.target_shape))
        return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)

    mapped = dataset.map(preprocess, num_parallel_calls=tf.data.AUTOTUNE)
    return mapped.prefetch(tf.data.AUTOTUNE)


class IdRows:
    """Rows of ids with their targets and weights, as `Examples`."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        count, *_, width = batch[0]["token_ids"].shape
        self.lengths: Int64Array = np.full(count, width, np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pick some rows; see `Examples`."""
        del length
        return keras.tree.map_structure(
            lambda array: None if array is None else array[rows], self.batch
        )


class LengthBatches(keras.utils.PyDataset):
    """Batches of similar length, which are packed when they are indexed."""

    def __init__(
        self,
        examples: Examples,
        padded_length: Any,
        batch_size: int = 32,
        shuffle: bool = False,
    ) -> None:
        check_positive(batch_size=batch_size)
        super().__init__()
        self.examples = examples
        self.padded_length = padded_length
        self.batch_size = batch_size
        # From NumPy's global generator, which `keras.utils.set_random_seed` sets.
        self.seed = np.random.randint(2**31) if shuffle else None
        self.epoch = 0
        self.plan = self._make_plan()

    def _make_plan(self) -> list[Int64Array]:
        generator = self._generator(self.epoch)
        return plan_batches(self.examples.lengths, self.batch_size, generator)

    def _generator(self, epoch: int) -> np.random.Generator | None:
        return None if self.seed is None else np.random.default_rng([self.seed, epoch])

    def of_epoch(self, epoch: int) -> Self:
        """Return the batches of one epoch, which depend on the seed and the epoch."""
        batches = copy.copy(self)
        batches.epoch = epoch
        batches.plan = batches._make_plan()
        seeds = getattr(self.examples, "seeds", None)
        if seeds is not None:
            # Masks differ in each epoch.
            examples: Any = copy.copy(self.examples)
            examples.seeds = seeds.of_epoch(epoch)
            batches.examples = examples
        return batches

    def __len__(self) -> int:
        return math.ceil(len(self.examples) / self.batch_size)

    def __getitem__(self, index: int) -> Batch:
        rows = self.plan[index]
        longest = int(self.examples.lengths[rows].max())
        return self.examples.pack(rows, self.padded_length(longest))

    def on_epoch_end(self) -> None:
        """Plan the batches of the next epoch."""
        if self.seed is not None:
            self.epoch += 1
            self.plan = self._make_plan()

    def restore_order(self, outputs: Any) -> Any:
        """Return predictions in the order of the examples."""
        if len(self.examples) == 1:
            return outputs
        order = np.concatenate(self.plan)

        def restore(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            restored = np.empty_like(array)
            restored[order] = array
            return restored

        return keras.tree.map_structure(restore, outputs)


def packed_shape(task: Task) -> PackedShape | None:
    """Return a new shape for the rows of a task, `None` if texts do not share rows."""
    if not getattr(task.preprocessor, "pack_sequences", False):
        return None
    devices = keras.distribution.distribution(), task.strategy, task.processes
    if any(each is not None for each in devices):
        raise ValueError(
            "Sequence packing works on one device, but this model runs on several. "
            "Received: pack_sequences=True. Set `preprocessor.pack_sequences = False`."
        )
    return PackedShape(task.backbone.hidden_dim)


class PackedBatches(LengthBatches):
    """Random batches of one shape and nearly one size, whose texts share rows."""

    def __init__(
        self,
        examples: Any,
        padded_length: Any,
        batch_size: int = 32,
        shuffle: bool = False,
        *,
        shape: PackedShape,
    ) -> None:
        self.shape = shape
        self._text_lengths = lengths_by_text(examples)
        # Row and first place of each text, for each batch of the plan.
        self._places: list[tuple[Int64Array, Int64Array]] = []
        super().__init__(examples, padded_length, batch_size, shuffle)

    def _make_plan(self) -> list[Int64Array]:
        if not self.shape.width:
            self._choose_shape()
        plan = self._plan_epoch(self.epoch)
        full = len(self.examples) // self.batch_size
        self._places = []
        for batches in (plan[:full], plan[full:]):
            if batches:
                row, start = self.shape.place(self._lengths_of(batches))
                self._places += zip(row, start, strict=True)
        return plan

    def _plan_epoch(self, epoch: int) -> list[Int64Array]:
        sizes = self._text_lengths.sum(axis=1)
        return plan_packed_batches(sizes, self.batch_size, self._generator(epoch))

    def _choose_shape(self) -> None:
        """Choose the shape by the batches of one epoch, or of several short ones."""
        if not (full := len(self.examples) // self.batch_size):
            return
        epochs = 1 if self.seed is None else math.ceil(SAMPLE / full)
        batches = [
            rows for epoch in range(epochs) for rows in self._plan_epoch(epoch)[:full]
        ]
        longest = int(self._text_lengths.max())
        self.shape.choose(self._lengths_of(batches), longest)

    def _lengths_of(self, batches: list[Int64Array]) -> Int64Array:
        lengths: Int64Array = self._text_lengths[np.stack(batches)]
        return lengths.reshape(len(batches), -1)

    def __getitem__(self, index: int) -> Batch:
        longest = int(self.examples.lengths.max())
        batch = self.examples.pack(self.plan[index], self.padded_length(longest))
        return _with_rows(batch, self.shape, *self._places[index])

    def positions_per_token(self) -> float:
        """Return how many positions are computed for each token of an epoch."""
        places = sum(self.shape.rows[len(row)] for row, _ in self._places)
        return self.shape.width * places / int(self._text_lengths.sum())


def pack_sequences(batch: Batch, shape: PackedShape) -> Batch:
    """Let the texts of a batch share rows; `shape` grows if they do not fit."""
    mask = batch[0]["padding_mask"]
    lengths = (mask > 0).sum(axis=-1).reshape(1, -1)
    row, start = shape.place(lengths)
    return _with_rows(batch, shape, row[0], start[0])


def _with_rows(
    batch: Batch, shape: PackedShape, row: Int64Array, start: Int64Array
) -> Batch:
    x = batch[0]
    mask = x["padding_mask"]
    rows = shape.rows[len(row)]
    if mask.ndim > 2:
        # Texts that no example of this batch has.
        of_examples = (array.reshape(len(mask), -1) for array in (row, start))
        row, start = (array[:, : mask.shape[1]].reshape(-1) for array in of_examples)
    mask = mask.reshape(-1, mask.shape[-1])
    tokens, places = packed_inputs(row, start, mask, shape.width, rows)
    return ({**x, ROW_TOKENS: tokens, TOKEN_PLACES: places}, *batch[1:])
