"""Batches of encoded examples of similar length."""

import copy
import math
from typing import Any, Self

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.text.batching import plan_batches
from keras_albert.text.packing import Examples
from keras_albert.types import Batch, Int64Array


class LengthBatches(keras.utils.PyDataset):
    """Batches of similar length, which are packed when they are indexed."""

    def __init__(
        self,
        examples: Examples,
        padded_length: Any,
        batch_size: int = 32,
        shuffle: bool = False,
    ) -> None:
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
        order = np.concatenate(self.plan)

        def restore(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            restored = np.empty_like(array)
            restored[order] = array
            return restored

        return keras.tree.map_structure(restore, outputs)
