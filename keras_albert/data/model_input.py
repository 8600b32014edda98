"""Input of a task, as a data set that `keras.Model.fit` takes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_albert.data import datasets, tables
from keras_albert.data.batch_sharding import share_dataset
from keras_albert.data.batches import (
    LengthBatches,
    PackedBatches,
    pack_sequences,
    packed_shape,
)
from keras_albert.data.preprocessed_inputs import IdRows, holds_ids
from keras_albert.text import packing
from keras_albert.text.batching import PackedShape
from keras_albert.text.reading import TextBatch, text_columns
from keras_albert.types import Batch, Mode
from keras_albert.utils.arguments import check_positive

if TYPE_CHECKING:
    from keras_albert.tasks.task import AlbertTask

_BATCH_SIZE = 32
_SINGLE = (
    "Pass batches of texts. Received a single one: {}. A data set without batches "
    "needs `.batch(32)`; make a list of one text."
)


def make_batches(
    task: "AlbertTask",
    data: tables.RawData,
    batch_size: int | None = None,
    mode: Mode = "evaluation",
    shuffle: bool = False,
    steps: datasets.Steps = datasets.Steps(),  # noqa: B008  (it is immutable)
    may_pack: bool = True,
) -> Any:
    """Return `LengthBatches` of examples, or a data set of preprocessed batches."""
    numbers = {"batch_size": batch_size, steps.option: steps.number}
    check_positive(**{name: n for name, n in numbers.items() if n is not None})
    if mode == "prediction" and not hasattr(data.x, "pack"):
        data = tables.read_table(task, data.x, None, None, data.columns, batch_size)
    x = data.x
    shape = None
    if may_pack and not holds_ids(task, x):
        shape = packed_shape(task)
    if datasets.is_dataset(x):
        if data.y is not None or data.sample_weight is not None:
            raise ValueError(
                "A data set has its own targets and weights, as (x, y) or "
                "(x, y, sample_weight). Leave out `y` and `sample_weight`, or pass "
                "`list(x)` if it holds texts."
            )
        x = datasets.check_dataset(x, steps)
        data = data._replace(x=x)
        return _read_dataset(task, data, mode, shuffle, steps.argument, shape)
    if hasattr(x, "pack"):
        # The task has encoded them.
        examples, batched = x, True
    else:
        examples, batched = _encode(task, mode, data)
    if not batched:
        raise ValueError(
            f"Pass a list of examples. Received a single one: {str(x)[:80]!r}. If the "
            "elements of a tuple are examples, pass `list(x)`."
        )
    if mode != "prediction" and not len(examples):
        raise ValueError("There are no examples: `x` is empty. Pass at least one text.")
    batch_size = batch_size or _BATCH_SIZE
    has_part = task.processes is not None and not task.processes.shares_data
    if has_part and mode != "prediction":
        batch_size = _own_batch_size(task, batch_size, len(examples))
    width = _width_of(task, x)
    how = (examples, width, batch_size, shuffle)
    # Small predictions reuse the unpacked program.
    is_small = mode == "prediction" and len(examples) <= batch_size
    if shape is None or is_small:
        return LengthBatches(*how)
    return PackedBatches(*how, shape=shape)


def _own_batch_size(task: "AlbertTask", batch_size: int, rows: int) -> int:
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
            "classes in its targets": [getattr(task, x) for x in task.set_by_targets],
        },
        "Divide the data evenly, and pass the classes to the task, `labels=[...]`.",
    )
    return own


def as_dataset(task: "AlbertTask", batches: Any) -> Any:
    """Return batches in the form that Keras takes, of the rows of this process."""
    is_planned, fixed = isinstance(batches, LengthBatches), not has_ragged_outputs(task)
    shared = share_dataset(task, batches, is_planned, fixed)
    if shared is batches and is_planned:
        return datasets.backend_dataset(batches, fixed)
    return shared


def has_ragged_outputs(model: keras.Model) -> bool:
    """Return whether an output is as long as the longest row of a batch."""
    outputs = keras.tree.flatten(model.output)
    return any(None in output.shape[1:] for output in outputs)


def unpack_validation(task: "AlbertTask", data: Any) -> tuple[Any, Any, Any]:
    """Split `validation_data`; texts alone if they are their own targets."""
    is_tuple = isinstance(data, tuple) and len(data) > 1
    is_split = is_tuple and (data[1] is None or holds_ids(task, data[0]))
    if (
        datasets.is_dataset(data)
        or tables.is_table(data)
        or (task.is_self_supervised and not is_split)
    ):
        return data, None, None
    if len(data) > 3:
        raise ValueError(
            "`validation_data` must be (x, y), (x, y, sample_weight), a data set or a "
            f"table. Received: {type(data).__name__} of {len(data)} elements."
        )
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(tuple(data))
    return x, y, sample_weight


def check_targets(
    task: "AlbertTask", x: Any, y: Any, mode: Mode, names: list[str] | None = None
) -> None:
    """Raise if targets are missing that a mode needs."""
    if y is not None or mode == "prediction":
        return
    if task.is_self_supervised and (task.ids_have_targets or not holds_ids(task, x)):
        return
    if names is not None:
        raise ValueError(
            "A loss needs targets. Name their column, "
            f"`label=...`, one of {', '.join(map(repr, names))}."
        )
    raise ValueError(
        "A loss needs targets, and `y` is None. Pass them as the second argument, in "
        "a data set of batches (x, y), or as `label=COLUMN` of a table; a pair of "
        "texts is one argument, `x=(first, second)`."
    )


def is_single(task: "AlbertTask", x: Any) -> bool:
    """Return whether raw input or ids, also of a graph, have no axis of examples."""
    rank = 0
    if holds_ids(task, x):
        rank = len(task.input["token_ids"].shape) - 1
        x = x.get("token_ids") if isinstance(x, Mapping) else None
    while isinstance(x, tuple | Mapping) and x:
        x = next(iter(x.values() if isinstance(x, Mapping) else x))
    if not hasattr(x, "shape"):
        return isinstance(x, str | bytes)
    return bool((x.shape.rank if hasattr(x.shape, "rank") else len(x.shape)) == rank)


def preprocess_batch(
    task: "AlbertTask", mode: Mode, x: Any, y: Any = None, sample_weight: Any = None
) -> tuple[Any, ...]:
    """Preprocess one batch of texts, or check one of ids; return a tuple of arrays."""
    if is_single(task, x):
        raise ValueError(_SINGLE.format(repr(str(x)[:80])))
    examples, _ = _encode(task, mode, tables.RawData(x, y, sample_weight))
    return _as_tuple(*packing.pack_all(examples, _width_of(task, x), True))


def _encode(task: "AlbertTask", mode: Mode, data: tables.RawData) -> tuple[Any, bool]:
    """Read and check texts or ids, once; return whether they were a batch, too."""
    x, y, weights, _, is_encoded = data
    check_targets(task, x, y, mode)
    if not holds_ids(task, x):
        if weights is not None:
            weights = task.read_weights(weights)
        targets = y if y is None or is_encoded else task.encode_targets(y)
        if targets is not None and len(targets) != 1 and is_single(task, x):
            raise ValueError(
                f"There are {len(targets)} targets, but `x` is one example: "
                f"{str(x)[:80]!r}. If the elements of a tuple are examples, pass "
                "`list(x)`."
            )
        examples, batched = task.encode(mode, x, targets, weights)
        return examples, batched
    ids = task.read_ids(x)
    targets = None if y is None else task.encode_id_targets(y)
    if weights is not None:
        axes = max([1, *map(np.ndim, keras.tree.flatten(targets))])
        weights = packing.read_weights(weights, axes)
    packing.check_counts(len(ids["token_ids"]), targets, weights)
    task.check_id_targets(ids, targets, mode)
    if targets is None and weights is not None:
        # Ignored by the task; a `tf.data.Dataset` cannot contain `None`.
        targets = np.zeros(len(weights), "float32")
    return IdRows(
        _as_tuple(ids, targets, packing.weights_by_target(targets, weights))
    ), True


def _width_of(task: "AlbertTask", x: Any) -> Any:
    """Return the function from the longest row of a batch to the width of the batch."""
    return int if holds_ids(task, x) else task.preprocessor.padded_length


def _as_tuple(x: Any, y: Any, sample_weight: Any) -> Batch:
    batch = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
    return batch if isinstance(batch, tuple) else (batch,)


def _read_dataset(
    task: "AlbertTask",
    data: tables.RawData,
    mode: Mode,
    shuffle: bool,
    argument: str,
    shape: PackedShape | None,
) -> Any:
    """Return a data set of preprocessed batches, in `tf.data`'s graph if possible."""
    dataset, columns = data.x, data.columns
    if datasets.is_tf_dataset(dataset):
        dataset = datasets.without_autotune(dataset)
        is_graph = task.preprocessor is None or task.preprocessor.runs_in_graph
        if is_graph and task.encodes_in_graph and shape is None:
            return _map_tf_dataset(task, dataset, mode, columns)
        dataset = datasets.numpy_batches(dataset)
    if not datasets.dataset_size(dataset):
        # Empty, or of unknown size.
        dataset = datasets.check_first(dataset, argument)

    def preprocess(element: Any) -> tuple[Any, ...]:
        x, *rest = _unpack(task, element, mode, columns)
        batch = preprocess_batch(task, mode, x, *rest)
        if shape is None or holds_ids(task, x):
            return batch
        return pack_sequences(batch, shape)

    return datasets.map_dataset(
        dataset, preprocess, shuffle, not has_ragged_outputs(task)
    )


def _unpack(
    task: "AlbertTask", element: Any, mode: Mode, columns: tables.Columns
) -> tuple[Any, Any, Any]:
    """Split an element; two texts are a pair unless the second must be the label."""
    parts: tuple[Any, Any, Any]
    if _is_batch_of_columns(task, element):
        parts = tables.pick_columns(task, element, columns, mode != "prediction")
        check_targets(task, parts[0], parts[1], mode, tables.column_names(element))
        return parts
    if isinstance(element, list):
        element = _read_collated(element)
    x = element if isinstance(element, tuple) else (element,)
    if task.is_self_supervised and not holds_ids(task, x[0]):
        return x if len(x) > 1 else x[0], None, None
    reads_raw = task.preprocessor is not None
    if len(x) > 1 and _is_batch_of_columns(task, x[0]):
        element = (tables.pick_columns(task, x[0], columns, False)[0], *x[1:])
    elif mode == "prediction" and reads_raw and isinstance(element, tuple):
        parts = task.preprocessor.split_element(element)
        return parts
    parts = keras.utils.unpack_x_y_sample_weight(element)
    check_targets(task, parts[0], parts[1], mode)
    return parts


def _is_batch_of_columns(task: "AlbertTask", x: Any) -> bool:
    """Return whether raw `x` is a dict, a data frame or a record batch."""
    return tables.column_names(x) is not None and not holds_ids(task, x)


def _read_collated(batch: list[Any]) -> Any:
    """Read a batch of PyTorch's `DataLoader`: texts, or columns, which are tuples."""
    if not batch or isinstance(batch[0], str | bytes):
        return (batch,)
    x, *rest = batch
    if isinstance(x, tuple):
        x = list(x)
    elif isinstance(x, list) and all(isinstance(column, tuple) for column in x):
        x = tuple(map(list, x))
    return (x, *rest)


def _map_tf_dataset(
    task: "AlbertTask", dataset: Any, mode: Mode, columns: tables.Columns
) -> Any:
    """Preprocess in the graph; rows of ids are not changed."""
    import tensorflow as tf  # noqa: PLC0415  (a `tf.data.Dataset` was given)

    # Autograph would put a traceback before each message.
    @tf.autograph.experimental.do_not_convert
    def preprocess(*element: Any) -> Any:
        x, y, sample_weight = _unpack(
            task, element if len(element) > 1 else element[0], mode, columns
        )
        if is_single(task, x):
            raise ValueError(_SINGLE.format(x))
        if hasattr(x, "shape") and x.shape.rank == 2 and x.shape[1] == 1:
            x = tf.squeeze(x, 1)
        if not holds_ids(task, x):
            x = task.preprocessor(x)
        if y is not None and not task.is_self_supervised:
            # In Python, for errors that name the row of a wrong label.
            dtype = tf.as_dtype(task.target_dtype)
            y = tf.numpy_function(task.encode_targets, [y], dtype)
            y = tf.ensure_shape(y, (None, *task.target_shape))
        return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)

    mapped = dataset.map(preprocess, num_parallel_calls=tf.data.AUTOTUNE)
    return mapped.prefetch(tf.data.AUTOTUNE)


@contextmanager
def unchanged_on_error(task: "AlbertTask") -> Iterator[None]:
    """Restore what a task has learned from targets if the block raises."""
    kept = {name: getattr(task, name) for name in task.set_by_targets}
    try:
        yield
    except BaseException:
        for name, value in kept.items():
            setattr(task, name, value)
        raise


def split_validation(
    data: tables.RawData, fraction: Any, columns_of: Any = text_columns
) -> tuple[tables.RawData, tables.RawData]:
    """Split examples in memory; the last ones are the validation set, as in Keras."""
    x = data.x
    given: Any = fraction
    is_fraction = isinstance(given, Real) and 0 < float(given) < 1
    if not is_fraction or datasets.is_dataset(x):
        raise ValueError(
            "`validation_split` must be a fraction between 0 and 1 of data in memory. "
            f"Received: validation_split={fraction!r}, x={type(x).__name__}. Pass "
            "`validation_data` instead."
        )
    if isinstance(x, Mapping) and "token_ids" in x:
        columns: Any = {name: np.asarray(column) for name, column in x.items()}
        count = len(columns["token_ids"])
    else:
        columns, _ = columns_of(x)
        count = len(columns[0])
    packing.check_counts(count, data.y, data.sample_weight)
    # Of examples, while the tuple `columns` is one of columns.
    y, weights = (
        list(values) if isinstance(values, tuple) else values
        for values in (data.y, data.sample_weight)
    )
    cut = int(count * (1 - fraction))
    if cut in (0, count):
        raise ValueError(
            f"`validation_split={fraction}` of {count} examples leaves one side empty. "
            "Use more data, or another fraction."
        )

    def part(rows: slice) -> tables.RawData:
        x = _slice(columns, rows)
        x = TextBatch(x, True) if isinstance(x, tuple) else x
        y_part, weights_part = _slice(y, rows), _slice(weights, rows)
        return data._replace(x=x, y=y_part, sample_weight=weights_part)

    return part(slice(0, cut)), part(slice(cut, count))


def _slice(values: Any, rows: slice) -> Any:
    """Take some rows of a list or an array, or of each in a tuple or a dict."""
    if values is None:
        return None
    if isinstance(values, Mapping):
        return {name: _slice(part, rows) for name, part in values.items()}
    if isinstance(values, tuple):
        return tuple(_slice(part, rows) for part in values)
    return values[rows] if isinstance(values, list) else np.asarray(values)[rows]
