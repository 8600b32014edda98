"""Tokenized examples, which are packed batch by batch."""

from collections.abc import Mapping
from typing import Any, Protocol

import keras
import numpy as np

from keras_albert.text.inputs.read_texts import plain_column
from keras_albert.types import Batch, Int64Array, IntArray

_WEIGHTS_ARE = "`sample_weight` must have a number for each example."


class Examples(Protocol):
    """Tokenized input, from which batches are packed.

    A row is one line of a batch; a long document may have several.
    """

    # Tokens in each row, int64 `(rows,)`.
    lengths: Int64Array

    def __len__(self) -> int:
        """Return the number of rows."""

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows.

        Returns `(x,)`, `(x, y)` or `(x, y, sample_weight)`, padded to `length`, at
        least the longest of the rows.
        """


class PackableTexts(Protocol):
    """Encoded texts without targets, such as `EncodedTexts`."""

    lengths: Int64Array

    def __len__(self) -> int:
        """Return the number of rows."""

    def pack(self, indices: Int64Array, length: int) -> dict[str, IntArray]:
        """Pack some rows; see `EncodedTexts.pack`."""


class LabelledTexts:
    """Texts with optional targets and sample weights."""

    def __init__(
        self, texts: PackableTexts, y: Any = None, sample_weight: Any = None
    ) -> None:
        y, sample_weight = (
            None if values is None else np.atleast_1d(values)
            for values in (y, sample_weight)
        )
        check_counts(len(texts), y, sample_weight)
        self.texts = texts
        self.lengths = texts.lengths
        self.text_lengths = lengths_by_text(texts)
        self.y = y
        self.sample_weight = sample_weight

    def __len__(self) -> int:
        return len(self.texts)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows; see `Examples`."""
        batch: Batch = (self.texts.pack(rows, length),)
        if self.y is not None:
            batch += (self.y[rows],)
            if self.sample_weight is not None:
                batch += (self.sample_weight[rows],)
        return batch


def lengths_by_text(examples: Any) -> Int64Array:
    """Return the tokens of each text of each row.

    int64 `(rows, texts)`, 0 for a missing text, from `text_lengths` if rows have
    several texts.
    """
    found: Int64Array = getattr(examples, "text_lengths", examples.lengths[:, None])
    return found


def pack_all(
    examples: Examples, padded_length: Any, batched: bool
) -> tuple[Any, Any, Any]:
    """Pack all rows as one batch, or the only one as an example.

    `x`, `y` and `sample_weight` are `None` if they are missing.
    """
    longest = int(examples.lengths.max(initial=1))
    batch: Any = examples.pack(np.arange(len(examples)), padded_length(longest))
    if not batched:
        batch = keras.tree.map_structure(lambda array: array[0], batch)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    return x, y, sample_weight


def read_weights(sample_weight: Any, axes: int = 1) -> Any:
    """Read sample weights, and check that they are finite and not negative.

    They are `(examples,)` or `(examples, 1)`, or a dict of such; errors name the row.
    """
    if isinstance(sample_weight, Mapping):
        return {name: read_weights(part, axes) for name, part in sample_weight.items()}
    sample_weight = plain_column(sample_weight)
    try:
        weights = np.asarray(sample_weight, np.float32)
    except (TypeError, ValueError) as error:
        msg = f"{_WEIGHTS_ARE} Received: {sample_weight!r:.80} ({error})"
        raise ValueError(msg) from error
    if not weights.ndim:
        msg = f"{_WEIGHTS_ARE} Received: {sample_weight!r:.80}"
        raise ValueError(msg)
    if axes == 1 and weights.ndim == 2 and weights.shape[1] == 1:
        weights = weights[:, 0]
    if weights.ndim > axes:
        msg = f"{_WEIGHTS_ARE} Received an array of shape {weights.shape}."
        raise ValueError(msg)
    # False for NaN.
    valid = (weights >= 0) & (weights < np.inf)
    is_valid = np.asarray(valid.all(axis=tuple(range(1, weights.ndim))))
    if not is_valid.all():
        row = int(np.argmin(is_valid))
        msg = (
            f"Row {row} has the sample weight {weights[row]}. Pass finite numbers that "
            "are not negative."
        )
        raise ValueError(msg)
    return weights


def weights_by_target(targets: Any, weights: Any) -> Any:
    """Copy one array of weights to each of several targets, with as many axes.

    If several outputs share one array of weights, Keras on TensorFlow does not know its
    number of axes and fails, or multiplies each loss by each weight. Weights stay as
    they are unless `targets` is a dict and they are one array.
    """
    if weights is None or isinstance(weights, Mapping):
        return weights
    if not isinstance(targets, Mapping):
        return weights
    return {
        name: weights.reshape(weights.shape + (1,) * (target.ndim - weights.ndim))
        for name, target in targets.items()
    }


def check_counts(count: int, targets: Any, weights: Any) -> None:
    """Check that there are as many targets and weights as examples."""
    for name, values in (("targets", targets), ("sample weights", weights)):
        parts = values.values() if isinstance(values, Mapping) else (values,)
        for part in parts:
            if part is not None and len(part) != count:
                msg = (
                    f"There are {count} examples, but {len(part)} {name}. Each example "
                    "needs one."
                )
                raise ValueError(msg)
