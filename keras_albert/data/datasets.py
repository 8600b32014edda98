"""Data sets in the form that `keras.Model.fit` takes on each backend."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, count
from typing import Any, NamedTuple, TypeVar

import keras
import numpy as np

# Preprocesses one element of a data set: `x`, `(x, y)` or `(x, y, sample_weight)`.
Preprocess = Callable[[Any], tuple[Any, ...]]


def is_tf_dataset(x: Any) -> bool:
    """Return whether `x` is a `tf.data.Dataset`, without importing TensorFlow."""
    return any(
        base.__name__ == "DatasetV2" and base.__module__.startswith("tensorflow")
        for base in type(x).__mro__
    )


def is_collated(dataset: Any) -> bool:
    """Return whether batches come from the default collation of PyTorch's loader."""
    collate = getattr(dataset, "collate_fn", None)
    return str(getattr(collate, "__module__", "")).startswith("torch.utils.data")


def undo_collation(element: Any) -> Any:
    """Return the tuple of columns for which PyTorch's loader makes a list."""
    if not isinstance(element, list) or isinstance(element[0], str | bytes):
        return element

    def column(part: Any) -> Any:
        if isinstance(part, list) and isinstance(part[0], tuple):
            return tuple(map(list, part))
        return list(part) if isinstance(part, tuple) else part

    return tuple(map(column, element))


def map_dataset(
    dataset: Any,
    preprocess: Preprocess,
    shuffle: bool = False,
    fixed_targets: bool = False,
) -> Any:
    """Preprocess the batches of a data set one by one, again in each epoch."""
    if isinstance(dataset, keras.utils.PyDataset) or (
        hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")
    ):
        batches = _MappedBatches(dataset, preprocess, shuffle)
        return backend_dataset(batches, fixed_targets)
    if hasattr(dataset, "__len__"):
        return backend_dataset(_StreamedBatches(dataset, preprocess), fixed_targets)
    elements = (preprocess(element) for element in dataset)
    if keras.config.backend() != "tensorflow":
        return elements
    first = next(elements)
    remaining = chain([first], elements)
    return _tf_dataset(lambda: remaining, first, fixed_targets)


def backend_dataset(batches: keras.utils.PyDataset, fixed_targets: bool = False) -> Any:
    """Return indexed batches of different widths in the form that Keras takes."""
    # `fixed_targets`: metrics may need to know that targets have one shape.
    size = batches.num_batches
    if keras.config.backend() != "tensorflow" or size == 0:
        return batches
    epochs = count()

    def epoch() -> Iterator[tuple[Any, ...]]:
        # Keras drops an iterator after its last batch, so that code after the loop
        # might not run: an epoch is ended when the next one starts.
        if next(epochs):
            batches.on_epoch_end()
        batches.on_epoch_begin()
        indices = count() if size is None else range(size)
        yield from (batches[index] for index in indices)

    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    dataset = _tf_dataset(epoch, batches[0], fixed_targets)
    if size is None:
        return dataset
    return dataset.apply(tf.data.experimental.assert_cardinality(size))


def _tf_dataset(
    epoch: Callable[[], Iterable[tuple[Any, ...]]],
    first: tuple[Any, ...],
    fixed_targets: bool,
) -> Any:
    """Create a data set without the shapes that Keras takes from two batches."""
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    def any_shape(array: Any) -> Any:
        array = np.asarray(array)
        return tf.TensorSpec((None,) * array.ndim, array.dtype)

    signature = keras.tree.map_structure(any_shape, first)
    if fixed_targets and len(first) > 1:
        targets = keras.tree.map_structure(
            lambda array: tf.TensorSpec((None, *array.shape[1:]), array.dtype), first[1]
        )
        signature = (signature[0], targets, *signature[2:])
    dataset = tf.data.Dataset.from_generator(epoch, output_signature=signature)
    return without_autotune(dataset.prefetch(2))


def map_tf_batches(dataset: Any, pick: Preprocess, mark: str) -> Any:
    """Map a `tf.data.Dataset` to some rows of each batch, and a matrix `mark`."""
    # It is read once in each epoch, since it may come from a generator.
    import tensorflow as tf  # noqa: PLC0415  (a `tf.data.Dataset` was given)

    spec = dataset.element_spec
    x, *rest = keras.tree.map_structure(
        lambda leaf: tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype),
        spec if isinstance(spec, tuple) else (spec,),
    )
    picked = tf.data.Dataset.from_generator(
        lambda: map(pick, dataset.as_numpy_iterator()),
        output_signature=({**x, mark: tf.TensorSpec((None, None), "int8")}, *rest),
    )
    if (size := num_steps(dataset)) is not None:
        picked = picked.apply(tf.data.experimental.assert_cardinality(size))
    return without_autotune(picked.prefetch(2))


def without_autotune(dataset: Any) -> Any:
    """Disable the autotuning of a `tf.data.Dataset`, unless its options set it."""
    # The autotuner (TensorFlow 2.21) often delays the end of an epoch by seconds.
    import tensorflow as tf  # noqa: PLC0415  (a `tf.data.Dataset` was given)

    if dataset.options().autotune.enabled is not None:
        return dataset
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


class _MappedBatches(keras.utils.PyDataset):
    """Indexed batches of another data set, preprocessed."""

    def __init__(
        self, source: Any, preprocess: Preprocess, shuffle: bool = False
    ) -> None:
        super().__init__()
        self.source = source
        self.preprocess = preprocess
        self.shuffle = shuffle
        self.order: Any = None
        self._shuffle()

    def _shuffle(self) -> None:
        if self.shuffle and self.num_batches:
            self.order = np.random.permutation(self.num_batches)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        if self.order is not None:
            index = int(self.order[index])
        return self.preprocess(self.source[index])

    def on_epoch_begin(self) -> None:
        if hasattr(self.source, "on_epoch_begin"):
            self.source.on_epoch_begin()

    def on_epoch_end(self) -> None:
        if hasattr(self.source, "on_epoch_end"):
            self.source.on_epoch_end()
        self._shuffle()


class _StreamedBatches(_MappedBatches):
    """Batches that are iterated in each epoch, as of PyTorch's `DataLoader`."""

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        if index == 0:
            self.stream = iter(self.source)
        return self.preprocess(next(self.stream))


def depends_on(batch: Any) -> AbstractContextManager[Any]:
    """Return a context in which operations of TensorFlow wait for a batch."""
    # A step detects the end of a data set of unknown length by failing. Other
    # operations may run before, and count one batch too many in each epoch.
    if keras.config.backend() != "tensorflow":
        return nullcontext()
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    tensors = tf.nest.flatten(batch, expand_composites=True)
    present = [each for each in tensors if tf.is_tensor(each)]
    return tf.control_dependencies(present)


def numpy_batches(dataset: Any) -> Any:
    """Return a `tf.data.Dataset` as NumPy batches, with a length unless infinite."""
    size = int(dataset.cardinality())
    if size == -1:  # `tf.data.INFINITE_CARDINALITY`
        return dataset.as_numpy_iterator()
    if size < 0:  # unknown, so that the batches are counted
        size = int(dataset.reduce(np.int64(0), lambda total, *_: total + 1))
    return SizedBatches(dataset.as_numpy_iterator, size)


class SizedBatches:
    """Batches that are iterated in each epoch, by `iterate`, and their number."""

    def __init__(self, iterate: Callable[[], Iterable[Any]], size: int) -> None:
        self.iterate = iterate
        self.size = size

    def __iter__(self) -> Iterator[Any]:
        return iter(self.iterate())

    def __len__(self) -> int:
        return self.size


_Result = TypeVar("_Result")


def dataset_size(dataset: Any) -> float | None:
    """Return the number of batches without reading any: `inf`, or `None` if unknown."""
    if is_tf_dataset(dataset):
        size = int(dataset.cardinality())
        # `tf.data.INFINITE_CARDINALITY` is -1, `tf.data.UNKNOWN_CARDINALITY` -2.
        return size if size >= 0 else {-1: math.inf}.get(size)
    if isinstance(dataset, keras.utils.PyDataset) and dataset.num_batches is None:
        return math.inf
    try:
        size = len(dataset)
    except (NotImplementedError, TypeError):
        return None
    # An infinite data set of grain has the largest number, or a part in batches.
    return size if size < sys.maxsize >> 20 else math.inf


def num_steps(dataset: Any) -> int | None:
    """Return the number of batches of an epoch; `None` if it is unknown or infinite."""
    size = dataset_size(dataset)
    return None if size is None or size == math.inf else int(size)


class Steps(NamedTuple):
    """How many batches are read in each epoch, and the option that limits them."""

    number: int | None = None
    option: str = "steps"
    argument: str = "x"
    epochs: int = 1


def check_dataset(dataset: Any, steps: Steps) -> Any:
    """Return a data set for each epoch, which is neither empty nor infinite."""
    size = dataset_size(dataset)
    if size == 0:
        raise _empty(steps.argument)
    if steps.number is not None or size not in (None, math.inf):
        return dataset
    if size == math.inf:
        raise ValueError(
            f"`{steps.argument}` is an infinite data set, and `{steps.option}` is "
            f"None. Pass `{steps.option}`, or limit the data set with `.take(n)`."
        )
    if steps.epochs == 1 or is_tf_dataset(dataset):
        return dataset
    if isinstance(dataset, Iterator):
        raise ValueError(
            f"`{steps.argument}` is an iterator, which can be read once, and `epochs` "
            f"is above 1. Pass `{steps.option}`, or what can be iterated again, such "
            "as a list of batches or a `keras.utils.PyDataset`."
        )
    if not (size := sum(1 for _ in dataset)):
        raise _empty(steps.argument)
    return SizedBatches(dataset.__iter__, size)


def check_first(batches: Iterable[Any], argument: str) -> Iterable[Any]:
    """Check that there is a first batch."""
    remaining = iter(batches)
    for first in remaining:
        return chain([first], remaining)
    raise _empty(argument)


def call_and_reject_empty(
    call: Callable[[], _Result], datasets: dict[str, Any]
) -> _Result:
    """Call a method of Keras, and check that no data set of unknown size was empty."""
    # A look before would fill shuffle buffers twice, and lose a batch of a generator.
    unsized = {
        argument: dataset
        for argument, dataset in datasets.items()
        if is_tf_dataset(dataset) and dataset_size(dataset) is None
    }
    try:
        result = call()
    except Exception:
        # Keras raises many errors without a batch, depending on the backend, the
        # method, and whether the model has run before.
        _check_unsized(unsized)
        raise
    metrics = getattr(result, "history", result)
    if isinstance(metrics, dict | list) and not metrics:
        _check_unsized(unsized)
    elif isinstance(metrics, dict) and not any(x.startswith("val_") for x in metrics):
        unsized.pop("x", None)
        _check_unsized(unsized)
    return result


def _check_unsized(datasets: dict[str, Any]) -> None:
    for argument, dataset in datasets.items():
        check_first(dataset.take(1), argument)


def _empty(argument: str) -> ValueError:
    return ValueError(
        f"`{argument}` is an empty data set: it has no batch. Check the files that it "
        "reads, and its calls of `filter`, `skip` and `take`."
    )
