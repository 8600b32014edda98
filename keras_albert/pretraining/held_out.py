"""What a run is judged by: a fixed part of the held-out documents."""

from dataclasses import dataclass
from typing import Any, Self

import keras
import numpy as np

from keras_albert.pretraining.pretraining_data import PretrainingData
from keras_albert.types import Batch

# Examples that are masked at a time.
_READ = 256


@dataclass(frozen=True)
class HeldOut:
    """Held-out examples as arrays, masked once and for all.

    Weights are such that averages over batches of any size are averages over the
    masked tokens, or over the pairs.

    Args:
        arrays: `(x, y, sample_weight)`, for `evaluate`.
        baselines: dict of float. What is reached without reading a text, by metric.
    """

    arrays: Batch
    baselines: dict[str, float]

    @classmethod
    def read(
        cls,
        data: PretrainingData,
        max_examples: int,
        batch_size: int,
        sequence_length: int | None,
    ) -> Self:
        """Take the first examples.

        Args:
            data: `PretrainingData` of the held-out split.
            max_examples: int. The most examples.
            batch_size: int. Examples in a batch; rows that do not count fill up the
                last one, so that all have one shape.
            sequence_length: int or `None`. Tokens in a row; `None`, the data's.

        Returns:
            The examples.
        """
        count = min(max_examples, len(data))
        # Read in parts of one size, so that masks do not follow from the batch size.
        batches = data.batches(_READ, sequence_length, shuffle=False)
        parts = list(map(batches.batch, range(-(-count // _READ))))
        rows = np.minimum(np.arange(-(-count // batch_size) * batch_size), count - 1)
        x, y, weights = keras.tree.map_structure(
            lambda *arrays: np.concatenate(arrays)[rows], *parts
        )
        for each in keras.tree.flatten(weights):
            each[count:] = 0
        baselines = keras.tree.map_structure(_most_frequent, y, weights)
        if isinstance(baselines, float):
            baselines = {"masked_lm": baselines}
        weights = keras.tree.map_structure(lambda w: w * (w.size / w.sum()), weights)
        named = {f"{name}_accuracy": share for name, share in baselines.items()}
        return cls((x, y, weights), named)

    @property
    def num_masked(self) -> int:
        """Masked tokens in all."""
        weights: Any = self.arrays[2]
        if isinstance(weights, dict):
            weights = weights["masked_lm"]
        return int(np.count_nonzero(weights))


def _most_frequent(labels: Any, weights: Any) -> float:
    """Score who always gives the commonest answer."""
    counts = np.bincount(labels[weights > 0])
    return float(counts.max() / counts.sum())
