"""Encoded texts as the batches that Keras trains on."""

import math
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.text.length_buckets import plan_batches
from keras_albert.text.packing import EncodedTexts


class LengthBatches(keras.utils.PyDataset):
    """Batches of like length, packed when they are asked for.

    Args:
        texts: `EncodedTexts`.
        padded_length: Callable of a batch's longest length; the width to pad to.
        y: Labels, an array `(examples, ...)`, or `None`.
        sample_weight: An array `(examples,)`, or `None`.
        batch_size: int. Defaults to `32`.
        shuffle: bool. Whether to plan other batches for each epoch, in random
            order; `keras.utils.set_random_seed` makes them reproducible. Defaults to
            `False`.
    """

    def __init__(
        self,
        texts: EncodedTexts,
        padded_length: Any,
        y: npt.NDArray[Any] | None = None,
        sample_weight: npt.NDArray[Any] | None = None,
        batch_size: int = 32,
        shuffle: bool = False,
    ) -> None:
        super().__init__()
        self.texts = texts
        self.padded_length = padded_length
        self.y = y
        self.sample_weight = sample_weight
        self.batch_size = batch_size
        self.shuffle = shuffle
        self.plan = self._make_plan()

    def _make_plan(self) -> list[npt.NDArray[np.int64]]:
        generator = None
        if self.shuffle:
            # From NumPy's global generator, which `keras.utils.set_random_seed` sets.
            generator = np.random.default_rng(np.random.randint(2**31))
        return plan_batches(self.texts.lengths, self.batch_size, generator)

    def __len__(self) -> int:
        return math.ceil(len(self.texts) / self.batch_size)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        rows = self.plan[index]
        width = self.padded_length(int(self.texts.lengths[rows].max()))
        batch: tuple[Any, ...] = (self.texts.pack(rows, width),)
        if self.y is not None:
            batch += (self.y[rows],)
            if self.sample_weight is not None:
                batch += (self.sample_weight[rows],)
        return batch

    def on_epoch_end(self) -> None:
        """Plan the next epoch's batches."""
        if self.shuffle:
            self.plan = self._make_plan()

    def restore_order(self, outputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Put what was predicted batch by batch into the order of the texts.

        Args:
            outputs: Array `(examples, ...)`, in the order of the plan.

        Returns:
            The array in the order of the texts.
        """
        restored = np.empty_like(outputs)
        restored[np.concatenate(self.plan)] = outputs
        return restored
