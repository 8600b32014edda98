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
from keras_albert.tasks.length_batches import LengthBatches

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

    def num_steps(self) -> int | None:
        """Count the batches of an epoch; `None` where nobody knows."""
        if self.batch_size is not None:
            return -(-len(self.x["token_ids"]) // self.batch_size)
        try:
            return len(self.x)
        except TypeError:
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
        return ModelInput(_read_dataset(task, x))
    if needs_targets and y is None:
        msg = (
            "A loss needs targets, and `y` is None. Pass them as the second argument; "
            "a pair of texts is one argument, `x=(first, second)`."
        )
        raise ValueError(msg)
    targets = None if y is None else task.encode_targets(y)
    weights = None if sample_weight is None else _read_weights(sample_weight)
    if task.preprocessor is None or isinstance(x, Mapping):
        _check_ids(task.backbone, x)
        _check_counts(len(x["token_ids"]), targets, weights)
        return ModelInput(dict(x), targets, weights, batch_size or _BATCH_SIZE)
    texts, batched = task.preprocessor.encode(x)
    if not batched:
        msg = f"Pass a list of texts. Received a single one: {str(x)[:80]!r}"
        raise ValueError(msg)
    _check_counts(len(texts), targets, weights)
    if not len(texts) and needs_targets:
        msg = "There are no examples: `x` is empty. Pass at least one text."
        raise ValueError(msg)
    batches = LengthBatches(
        texts,
        task.preprocessor.padded_length,
        targets,
        weights,
        batch_size or _BATCH_SIZE,
        shuffle,
    )
    return ModelInput(backend_dataset(batches), batches=batches)


def _read_dataset(task: Any, dataset: Any) -> Any:
    if task.preprocessor is None:
        return dataset
    if is_tf_dataset(dataset):
        return _map_tf_dataset(task.preprocessor, dataset)

    def preprocess(element: Any) -> tuple[Any, ...]:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(element)
        if not isinstance(x, Mapping):
            x = task.preprocessor(x)
        targets = None if y is None else task.encode_targets(y)
        batch = keras.utils.pack_x_y_sample_weight(x, targets, sample_weight)
        return batch if isinstance(batch, tuple) else (batch,)

    return map_dataset(dataset, preprocess)


def _map_tf_dataset(preprocessor: Any, dataset: Any) -> Any:
    """Preprocess in the graph; rows of ids pass as they are."""
    import tensorflow as tf  # noqa: PLC0415  (a `tf.data.Dataset` was given)

    spec = dataset.element_spec
    if isinstance(spec[0] if isinstance(spec, tuple) else spec, dict):
        return dataset

    def preprocess(*element: Any) -> Any:
        return preprocessor(element if len(element) > 1 else element[0])

    mapped = dataset.map(preprocess, num_parallel_calls=tf.data.AUTOTUNE)
    return mapped.prefetch(tf.data.AUTOTUNE)


def _read_weights(sample_weight: Any) -> npt.NDArray[np.float32]:
    weights = np.asarray(sample_weight, np.float32)
    if not np.isfinite(weights).all():
        row = int(np.argmin(np.isfinite(weights)))
        msg = f"Row {row} has the sample weight {weights[row]}. Pass finite numbers."
        raise ValueError(msg)
    return weights


def _check_counts(count: int, targets: Any, weights: Any) -> None:
    for name, array in (("targets", targets), ("sample weights", weights)):
        if array is not None and len(array) != count:
            msg = (
                f"There are {count} examples, but {len(array)} {name}. Each example "
                "needs one."
            )
            raise ValueError(msg)


def _check_ids(backbone: Any, inputs: Any) -> None:
    """Find ids without an embedding before a backend reads past its table."""
    expected = ("token_ids", "segment_ids", "padding_mask")
    if not isinstance(inputs, Mapping) or not set(expected) <= set(inputs):
        keys = sorted(inputs) if isinstance(inputs, Mapping) else type(inputs).__name__
        msg = (
            "The model takes texts, for which it needs a preprocessor, or a dict of "
            f"{', '.join(expected)}. Received: {keys}"
        )
        raise TypeError(msg)
    for name, limit, what in (
        ("token_ids", backbone.vocabulary_size, "vocabulary_size"),
        ("segment_ids", backbone.num_segments, "num_segments"),
    ):
        ids = keras.ops.convert_to_numpy(inputs[name])
        if ids.size and (ids.min() < 0 or ids.max() >= limit):
            rows = ((ids < 0) | (ids >= limit)).reshape(len(ids), -1).any(axis=1)
            msg = (
                f"Row {int(rows.argmax())} of `{name}` holds an id outside 0 to "
                f"{limit - 1}, the model's `{what}` being {limit}. Use the vocabulary "
                "that the model was made with."
            )
            raise ValueError(msg)
    length = inputs["token_ids"].shape[1]
    if length > backbone.max_sequence_length:
        msg = (
            f"The rows of `token_ids` have {length} tokens, and the model reads "
            f"{backbone.max_sequence_length}. Truncate them."
        )
        raise ValueError(msg)
