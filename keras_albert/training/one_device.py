"""Training where nothing is shared out."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.tasks.datasets import map_dataset
from keras_albert.training.metric_state import build_metrics
from keras_albert.types import Batch


class OneDevice:
    """What a run asks about devices, where there is one process and one device.

    Other layouts have the same members.
    """

    # Which part of a batch this process reads, and of how many.
    shard = 0
    num_shards = 1

    # Whether this process writes files and shows progress.
    is_chief = True

    def scope(self) -> AbstractContextManager[Any]:
        """Give the context that the model is built and trained in."""
        return nullcontext()

    def prepare(self, model: Any, batch: Batch) -> None:
        """Change how a compiled model trains, before its state is restored.

        It also creates the variables of the metrics, for which Keras would take a
        batch that is then not trained on.
        """
        build_metrics(model, batch)

    def batches(self, batches: Iterator[Batch], example: Batch) -> Any:
        """Turn endless batches of this process into what `fit` takes.

        Args:
            batches: Iterator of `(x, y, sample_weight)`, NumPy arrays.
            example: One such batch. Layouts of several devices need all to have its
                shapes.

        Returns:
            What Keras reads.
        """
        del example
        # A generator, or a data set of TensorFlow: Keras takes no other iterators.
        return map_dataset(batches, lambda batch: batch)

    def values(self, variables: list[Any]) -> list[npt.NDArray[Any]]:
        """Read variables, each as a whole."""
        return [np.asarray(variable.numpy()) for variable in variables]

    def assign(self, variables: list[Any], values: list[npt.NDArray[Any]]) -> None:
        """Write variables, each from a whole."""
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    def barrier(self) -> None:
        """Wait for all processes."""
