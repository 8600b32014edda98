"""What users pass to a task, as what `keras.Model.fit` takes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.tasks.datasets import (
    backend_dataset,
    is_dataset,
    is_tf_dataset,
    map_dataset,
)
from keras_albert.tasks.id_arrays import read_ids
from keras_albert.tasks.length_batches import LengthBatches
from keras_albert.text.text_columns import holds_text

_BATCH_SIZE = 32

EncodeTargets = Callable[[Any], npt.NDArray[Any]]


@dataclass(frozen=True)
class ModelInput:
    """Arguments for a method of `keras.Model`.

    Args:
        x: A data set of batches, or a dict of arrays.
        y: Targets, where `x` is a dict. Defaults to `None`.
        sample_weight: Weights, where `x` is a dict. Defaults to `None`.
        batch_size: int, where `x` is a dict. Defaults to `None`.
        batches: The `LengthBatches` behind `x`, if there are any.
    """

    x: Any
    y: Any = None
    sample_weight: Any = None
    batch_size: int | None = None
    batches: LengthBatches | None = None

    def arguments(self) -> dict[str, Any]:
        """Give the keyword arguments of `fit` or `evaluate`."""
        if self.batch_size is None:
            return {"x": self.x}
        return {
            "x": self.x,
            "y": self.y,
            "sample_weight": self.sample_weight,
            "batch_size": self.batch_size,
        }

    def validation_data(self) -> Any:
        """Give what `fit` takes as `validation_data`."""
        if self.batch_size is None:
            return self.x
        return keras.utils.pack_x_y_sample_weight(self.x, self.y, self.sample_weight)

    def is_empty(self) -> bool:
        """Whether there are no examples, as far as one can know."""
        if self.batch_size is not None:
            return not len(self.x["token_ids"])
        return self.batches is not None and not len(self.batches)

    def num_steps(self) -> int | None:
        """Count the batches of an epoch; `None` where nobody knows."""
        if self.batch_size is not None:
            return -(-len(self.x["token_ids"]) // self.batch_size)
        try:
            return len(self.x)
        except (TypeError, NotImplementedError):
            return None


def read_model_input(
    task: Any,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    batch_size: int | None = None,
    shuffle: bool = False,
    needs_targets: bool = True,
) -> ModelInput:
    """Read texts, arrays of ids or a data set.

    Args:
        task: An `AlbertTask`.
        x: Texts, a dict of ids, or a data set.
        y: Targets, unless `x` is a data set.
        sample_weight: One weight an example. Defaults to `None`.
        batch_size: int. Defaults to `None`, 32.
        shuffle: bool. Whether each epoch has another order. Defaults to `False`.
        needs_targets: bool. Whether a loss will be computed. Defaults to `True`.

    Returns:
        The arguments for Keras.

    Raises:
        TypeError: If `x` is none of these.
        ValueError: If there are no examples, or something is wrong with one.
    """
    if is_dataset(x):
        if y is not None or sample_weight is not None:
            msg = (
                "A data set gives its own targets and weights, as (x, y) or "
                "(x, y, sample_weight). Leave out `y` and `sample_weight`."
            )
            raise ValueError(msg)
        return ModelInput(_read_dataset(task, x, shuffle, needs_targets))
    if needs_targets and y is None:
        msg = (
            "A loss needs targets, and `y` is None. Pass them as the second argument; "
            "a pair of texts is one argument, `x=(first, second)`."
        )
        raise ValueError(msg)
    targets = None if y is None else task.encode_targets(y)
    weights = None if sample_weight is None else _read_weights(sample_weight)
    if task.preprocessor is None or isinstance(x, Mapping):
        ids = read_ids(task.backbone, x)
        check_counts(len(ids["token_ids"]), targets, weights, needs_targets)
        return ModelInput(ids, targets, weights, batch_size or _BATCH_SIZE)
    texts, batched = task.preprocessor.encode(x)
    if not batched:
        msg = f"Pass a list of texts. Received a single one: {str(x)[:80]!r}"
        raise ValueError(msg)
    check_counts(len(texts), targets, weights, needs_targets)
    batches = LengthBatches(
        texts,
        task.preprocessor.padded_length,
        targets,
        weights,
        batch_size or _BATCH_SIZE,
        shuffle,
    )
    return ModelInput(backend_dataset(batches), batches=batches)


def preprocess_batch(
    task: Any, x: Any, y: Any = None, sample_weight: Any = None
) -> Any:
    """Preprocess one batch of texts, or check one of ids.

    Args:
        task: An `AlbertTask`.
        x: Texts, or a dict of ids.
        y: Targets. Defaults to `None`.
        sample_weight: One weight an example. Defaults to `None`.

    Returns:
        `x`, `(x, y)` or `(x, y, sample_weight)`, as arrays.

    Raises:
        TypeError: If `x` is none of these.
        ValueError: If it is no batch, or something is wrong with a row.
    """
    if task.preprocessor is None or isinstance(x, Mapping):
        inputs = read_ids(task.backbone, x)
    else:
        inputs = task.preprocessor(x)
    if inputs["token_ids"].ndim == 1:
        msg = (
            f"Pass batches of texts. Received a single one: {str(x)[:80]!r}. Make a "
            "list of it, or batch the data set."
        )
        raise ValueError(msg)
    targets = None if y is None else task.encode_targets(y)
    weights = None if sample_weight is None else _read_weights(sample_weight)
    check_counts(len(inputs["token_ids"]), targets, weights)
    return keras.utils.pack_x_y_sample_weight(inputs, targets, weights)


def _read_dataset(task: Any, dataset: Any, shuffle: bool, needs_targets: bool) -> Any:
    if is_tf_dataset(dataset):
        return _map_tf_dataset(task, dataset, needs_targets)

    def preprocess(element: Any) -> tuple[Any, ...]:
        batch = preprocess_batch(task, *_unpack(element, needs_targets))
        return batch if isinstance(batch, tuple) else (batch,)

    return map_dataset(dataset, preprocess, shuffle)


def _unpack(element: Any, needs_targets: bool) -> tuple[Any, Any, Any]:
    """Split an element; two texts are a pair unless one must be the label."""
    if isinstance(element, list):
        element = _read_collated(element)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(element)
    if not needs_targets and sample_weight is None and holds_text(y):
        return element, None, None
    if needs_targets and y is None:
        msg = (
            "A loss needs targets, and the data set gives none. Its elements should be "
            "batches (x, y) or (x, y, sample_weight)."
        )
        raise ValueError(msg)
    return x, y, sample_weight


def _read_collated(batch: list[Any]) -> Any:
    """Read what PyTorch's `DataLoader` makes of a batch: texts, or a list of columns.

    A column of texts is a tuple there, and a column of pairs a list of two.
    """
    if not batch or isinstance(batch[0], str | bytes):
        return (batch,)
    x, *rest = batch
    if isinstance(x, tuple):
        x = list(x)
    elif isinstance(x, list) and all(isinstance(column, tuple) for column in x):
        x = tuple(map(list, x))
    return (x, *rest)


def _map_tf_dataset(task: Any, dataset: Any, needs_targets: bool) -> Any:
    """Preprocess in the graph; rows of ids pass as they are."""
    import tensorflow as tf  # noqa: PLC0415  (a `tf.data.Dataset` was given)

    def preprocess(*element: Any) -> Any:
        x, y, sample_weight = _unpack(
            element if len(element) > 1 else element[0], needs_targets
        )
        if task.preprocessor is not None and not isinstance(x, Mapping):
            x = task.preprocessor(x)
        if y is not None:
            # In Python, which finds a wrong label and names its row.
            dtype = tf.as_dtype(task.target_dtype)
            shape = (None, 1) if dtype.is_floating else (None,)
            y = tf.ensure_shape(
                tf.numpy_function(task.encode_targets, [y], dtype), shape
            )
        return keras.utils.pack_x_y_sample_weight(x, y, sample_weight)

    mapped = dataset.map(preprocess, num_parallel_calls=tf.data.AUTOTUNE)
    return mapped.prefetch(tf.data.AUTOTUNE)


def _read_weights(sample_weight: Any) -> npt.NDArray[np.float32]:
    weights = np.asarray(sample_weight, np.float32)
    if not np.isfinite(weights).all():
        row = int(np.argmin(np.isfinite(weights)))
        msg = f"Row {row} has the sample weight {weights[row]}. Pass finite numbers."
        raise ValueError(msg)
    return weights


def check_counts(
    count: int, targets: Any, weights: Any, needs_some: bool = False
) -> None:
    """Check that each example has its target and its weight, if there are any.

    Args:
        count: int. How many examples there are.
        targets: Something with a length, or `None`.
        weights: Something with a length, or `None`.
        needs_some: bool. Whether there must be an example. Defaults to `False`.

    Raises:
        ValueError: If a count differs, or there is no example.
    """
    for name, array in (("targets", targets), ("sample weights", weights)):
        if array is not None and len(array) != count:
            msg = (
                f"There are {count} examples, but {len(array)} {name}. Each example "
                "needs one."
            )
            raise ValueError(msg)
    if needs_some and not count:
        msg = "There are no examples: `x` is empty. Pass at least one text."
        raise ValueError(msg)
