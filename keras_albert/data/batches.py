"""Batches of encoded examples: of similar length, or of texts that share rows."""

import copy
import math
from typing import TYPE_CHECKING, Any, Self

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.data.batch_sharding import num_parts
from keras_albert.layers.attention import ROW_TOKENS, TOKEN_PLACES
from keras_albert.text import batching
from keras_albert.text.packing import Examples, lengths_by_text
from keras_albert.types import Batch, Int64Array
from keras_albert.utils.arguments import check_positive

if TYPE_CHECKING:
    from keras_albert.tasks.task import AlbertTask


class LengthBatches(keras.utils.PyDataset):
    """Batches of similar length, which are packed when they are indexed."""

    def __init__(
        self,
        examples: Examples,
        padded_length: Any,
        batch_size: int = 32,
        shuffle: bool = False,
    ) -> None:
        check_positive(batch_size=batch_size)
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
        return batching.plan_batches(self.examples.lengths, self.batch_size, generator)

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
        if len(self.examples) == 1:
            return outputs
        order = np.concatenate(self.plan)

        def restore(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            restored = np.empty_like(array)
            restored[order] = array
            return restored

        return keras.tree.map_structure(restore, outputs)


def packed_shape(task: "AlbertTask") -> batching.PackedShape | None:
    """Return a new shape for the rows of a task, `None` if texts do not share rows."""
    if not getattr(task.preprocessor, "pack_sequences", False):
        return None
    if num_parts() > 1 or task.strategy is not None or task.processes is not None:
        raise ValueError(
            "Sequence packing works on one device, but this model runs on several. "
            "Received: pack_sequences=True. Set `preprocessor.pack_sequences = False`."
        )
    return batching.PackedShape(task.backbone.hidden_dim)


class PackedBatches(LengthBatches):
    """Random batches of one shape and nearly one size, whose texts share rows."""

    def __init__(
        self,
        examples: Any,
        padded_length: Any,
        batch_size: int = 32,
        shuffle: bool = False,
        *,
        shape: batching.PackedShape,
    ) -> None:
        self.shape = shape
        self._text_lengths = lengths_by_text(examples)
        # Row and first place of each text, for each batch of the plan.
        self._places: list[tuple[Int64Array, Int64Array]] = []
        super().__init__(examples, padded_length, batch_size, shuffle)

    def _make_plan(self) -> list[Int64Array]:
        if not self.shape.width:
            self._choose_shape()
        plan = self._plan_epoch(self.epoch)
        full = len(self.examples) // self.batch_size
        self._places = []
        for batches in (plan[:full], plan[full:]):
            if batches:
                row, start = self.shape.place(self._lengths_of(batches))
                self._places += zip(row, start, strict=True)
        return plan

    def _plan_epoch(self, epoch: int) -> list[Int64Array]:
        sizes = self._text_lengths.sum(axis=1)
        return batching.plan_packed_batches(
            sizes, self.batch_size, self._generator(epoch)
        )

    def _choose_shape(self) -> None:
        """Choose the shape by the batches of one epoch, or of several short ones."""
        if not (full := len(self.examples) // self.batch_size):
            return
        epochs = 1 if self.seed is None else math.ceil(batching.SAMPLE / full)
        batches = [
            rows for epoch in range(epochs) for rows in self._plan_epoch(epoch)[:full]
        ]
        longest = int(self._text_lengths.max())
        self.shape.choose(self._lengths_of(batches), longest)

    def _lengths_of(self, batches: list[Int64Array]) -> Int64Array:
        lengths: Int64Array = self._text_lengths[np.stack(batches)]
        return lengths.reshape(len(batches), -1)

    def __getitem__(self, index: int) -> Batch:
        longest = int(self.examples.lengths.max())
        batch = self.examples.pack(self.plan[index], self.padded_length(longest))
        return _with_rows(batch, self.shape, *self._places[index])

    def positions_per_token(self) -> float:
        """Return how many positions are computed for each token of an epoch."""
        places = sum(self.shape.rows[len(row)] for row, _ in self._places)
        return self.shape.width * places / int(self._text_lengths.sum())


def pack_sequences(batch: Batch, shape: batching.PackedShape) -> Batch:
    """Let the texts of a batch share rows; `shape` grows if they do not fit."""
    mask = batch[0]["padding_mask"]
    lengths = (mask > 0).sum(axis=-1).reshape(1, -1)
    row, start = shape.place(lengths)
    return _with_rows(batch, shape, row[0], start[0])


def _with_rows(
    batch: Batch, shape: batching.PackedShape, row: Int64Array, start: Int64Array
) -> Batch:
    x = batch[0]
    mask = x["padding_mask"]
    rows = shape.rows[len(row)]
    if mask.ndim > 2:
        # Texts that no example of this batch has.
        of_examples = (array.reshape(len(mask), -1) for array in (row, start))
        row, start = (array[:, : mask.shape[1]].reshape(-1) for array in of_examples)
    mask = mask.reshape(-1, mask.shape[-1])
    tokens, places = batching.packed_inputs(row, start, mask, shape.width, rows)
    return ({**x, ROW_TOKENS: tokens, TOKEN_PLACES: places}, *batch[1:])
