"""Training on one device."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.tasks.distribution.model_state import build_metrics
from keras_albert.tasks.inputs.datasets import map_dataset
from keras_albert.types import Batch


class OneDevice:
    """The device layout of one process with one device.

    Other layouts have the same members.
    """

    # The part of a batch that this process reads, and the number of parts.
    shard = 0
    num_shards = 1

    # The devices of this process that a batch is split among.
    num_replicas = 1

    # Whether this process writes files and shows progress.
    is_chief = True

    def scope(self) -> AbstractContextManager[Any]:
        """Return the context in which the model is built and trained."""
        return nullcontext()

    def prepare(self, model: Any, batch: Batch) -> None:
        """Set up the training of a compiled model, before its state is restored.

        This also creates the variables of the metrics; Keras would take a batch for
        them that is then not trained on.
        """
        build_metrics(model, batch)

    def batches(self, batches: Iterator[Batch], example: Batch) -> Any:
        """Convert the endless batches of this process to an input of `fit`.

        `batches` are endless; `example` has the shapes that layouts of several devices
        require of all batches.
        """
        self.check_rows(example)
        # Keras accepts no iterators but generators and TensorFlow data sets.
        return map_dataset(batches, lambda batch: batch)

    def check_rows(self, example: Batch) -> None:
        """Raise if a batch cannot be split equally among the devices."""
        rows = len(keras.tree.flatten(example)[0])
        if rows % self.num_replicas:
            msg = (
                f"{rows} rows cannot be divided among {self.num_replicas} devices. "
                "Choose a `batch_size` that is a multiple of the number of devices "
                "times `accumulation_steps`."
            )
            raise ValueError(msg)

    def values(self, variables: list[Any]) -> list[npt.NDArray[Any]]:
        """Return the whole values of variables."""
        return [np.asarray(variable.numpy()) for variable in variables]

    def assign(self, variables: list[Any], values: list[npt.NDArray[Any]]) -> None:
        """Assign whole values to variables."""
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)

    def agree(self, flag: bool) -> bool:
        """Return whether the flag of any process is set; all processes call it."""
        return flag

    def barrier(self) -> None:
        """Wait for all processes."""
