"""Data sets in the form that `keras.Model.fit` takes on each backend."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, count
from typing import Any

import keras
import numpy as np

from keras_albert.text.reading import is_column

# Preprocesses one element of a data set: `x`, `(x, y)` or `(x, y, sample_weight)`.
Preprocess = Callable[[Any], tuple[Any, ...]]


def is_dataset(x: Any) -> bool:
    """Return whether `x` yields batches, and is neither an array nor texts."""
    is_array = hasattr(x, "__array__") or is_column(x)
    if is_array or isinstance(x, str | bytes | list | tuple | Mapping):
        return False
    return isinstance(x, keras.utils.PyDataset) or hasattr(x, "__iter__")


def is_tf_dataset(x: Any) -> bool:
    """Return whether `x` is a `tf.data.Dataset`, without importing TensorFlow."""
    return any(
        base.__name__ == "DatasetV2" and base.__module__.startswith("tensorflow")
        for base in type(x).__mro__
    )


def map_dataset(
    dataset: Any,
    preprocess: Preprocess,
    shuffle: bool = False,
    fixed_targets: bool = False,
) -> Any:
    """Preprocess the batches of a data set one by one.

    A data set with a length may be iterated again in each epoch.
    """
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
    """Return indexed batches of different widths in the form that Keras takes.

    `fixed_targets`: targets of an example have one shape in all batches, which metrics
    may need to know.
    """
    size = batches.num_batches
    if keras.config.backend() != "tensorflow" or size == 0:
        return batches
    epochs = count()

    def epoch() -> Iterator[tuple[Any, ...]]:
        # Keras drops an iterator after its last batch, so that code after the loop
        # might not run: an epoch is ended when the next one begins.
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
    """Create a `tf.data.Dataset` whose batches may have different widths.

    Keras would take the shapes of the first two batches for those of all.
    """
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


def without_autotune(dataset: Any) -> Any:
    """Disable the autotuning of a `tf.data.Dataset`, unless its options set it.

    The autotuner (TensorFlow 2.21) wakes after waits that double, and often delays the
    end of an epoch until then: an epoch of six seconds takes ten. `AUTOTUNE` in a `map`
    then means a thread for each core, up to 16.
    """
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


def after(batch: Any) -> AbstractContextManager[Any]:
    """Return a context in which operations wait for a batch.

    On TensorFlow a step detects the end of a data set of unknown length by failing.
    Operations that do not depend on the batch, such as counters of steps, may run
    before that: metrics and the optimizer would count a batch too many in each epoch.
    On other backends the context does nothing.
    """
    if keras.config.backend() != "tensorflow":
        return nullcontext()
    import tensorflow as tf  # noqa: PLC0415  (it is the backend)

    tensors = tf.nest.flatten(batch, expand_composites=True)
    present = [each for each in tensors if tf.is_tensor(each)]
    context: AbstractContextManager[Any] = tf.control_dependencies(present)
    return context


def numpy_batches(dataset: Any) -> Any:
    """Return a `tf.data.Dataset` as an iterable of NumPy batches.

    It has a length, unless the data set is infinite.
    """
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
