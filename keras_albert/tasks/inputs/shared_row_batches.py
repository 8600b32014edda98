"""Batches whose texts share rows."""

import math
from typing import Any

import numpy as np

from keras_albert.layers.shared_rows import ROW_TOKENS, TOKEN_PLACES
from keras_albert.tasks.inputs.even_rows import num_parts
from keras_albert.tasks.inputs.length_batches import LengthBatches
from keras_albert.text.batching import (
    SAMPLE,
    RowShape,
    plan_even_batches,
    row_inputs,
)
from keras_albert.text.packing import lengths_by_text
from keras_albert.types import Batch, Int64Array


def row_shape(task: Any) -> RowShape | None:
    """Return a new shape for the rows of a task, `None` if texts do not share rows."""
    if not getattr(task.preprocessor, "share_rows", False):
        return None
    if num_parts() > 1 or task.strategy is not None:
        msg = (
            "Texts share the rows of one device, and this model runs on several. "
            "Received: share_rows=True. Set `preprocessor.share_rows = False`."
        )
        raise ValueError(msg)
    return RowShape(task.backbone.hidden_dim)


class SharedRowBatches(LengthBatches):
    """Random batches of one shape, whose texts share rows.

    All batches have nearly the same number of tokens. The last one, if it is smaller,
    has another shape.
    """

    def __init__(
        self,
        examples: Any,
        padded_length: Any,
        batch_size: int = 32,
        shuffle: bool = False,
        *,
        shape: RowShape,
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
        return plan_even_batches(sizes, self.batch_size, self._generator(epoch))

    def _choose_shape(self) -> None:
        """Choose the shape by the batches of one epoch, or of several short ones."""
        if not (full := len(self.examples) // self.batch_size):
            return
        epochs = 1 if self.seed is None else math.ceil(SAMPLE / full)
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


def share_rows(batch: Batch, shape: RowShape) -> Batch:
    """Let the texts of a batch share rows.

    `shape` grows if the texts do not fit.
    """
    mask = batch[0]["padding_mask"]
    lengths = (mask > 0).sum(axis=-1).reshape(1, -1)
    row, start = shape.place(lengths)
    return _with_rows(batch, shape, row[0], start[0])


def _with_rows(
    batch: Batch, shape: RowShape, row: Int64Array, start: Int64Array
) -> Batch:
    x = batch[0]
    mask = x["padding_mask"]
    rows = shape.rows[len(row)]
    if mask.ndim > 2:
        # Texts that no example of this batch has.
        of_examples = (array.reshape(len(mask), -1) for array in (row, start))
        row, start = (array[:, : mask.shape[1]].reshape(-1) for array in of_examples)
    mask = mask.reshape(-1, mask.shape[-1])
    tokens, places = row_inputs(row, start, mask, shape.width, rows)
    return ({**x, ROW_TOKENS: tokens, TOKEN_PLACES: places}, *batch[1:])
