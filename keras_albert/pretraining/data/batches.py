"""Batches of masked pairs, each determined by its number."""

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import keras
import numpy as np

from keras_albert.text.masked_lm.examples import draw_pairs
from keras_albert.text.packing.pack import EncodedTexts, SpecialIds
from keras_albert.text.tokenizer.token_rows import TokenRows, ragged_range
from keras_albert.types import Batch, Int64Array
from keras_albert.utils.arguments import check_positive

if TYPE_CHECKING:
    from keras_albert.pretraining.data.dataset import PretrainingData

_SPECIALS = 3  # [CLS] and two [SEP]


class PretrainingBatches:
    """Batches by number, counted from 0; see `PretrainingData.batches`.

    With a second task, longer pairs are truncated, and keep the beginnings of both
    segments. Without a second task, each epoch reads another part of them.

    `batch(step)` depends only on the data, its seed and the arguments, so that a
    resumed run continues with the next number. Masks are drawn for a whole optimizer
    step, so that processes with a part each have parts of the same batch.

    `x` contains `token_ids`, `segment_ids`, `padding_mask` `(rows, sequence_length)`
    and `mask_positions` `(rows, slots)`. `y` and `sample_weight` are dicts of
    `masked_lm` `(rows, slots)` and the second task `(rows,)`, or the array of
    `masked_lm` if there is none.

    Weights: the mean over all cells of `weight * loss`, averaged over the batches and
    processes of an optimizer step, is the mean over its masked tokens, or pairs.
    Without `shuffle`, weights are 1 and 0: divide the sum by that of the weights.

    Args:
        data: `PretrainingData`.
        batch_size: int. Examples in a batch.
        sequence_length: int. The length of rows.
        accumulation_steps: int. Batches per optimizer step. Defaults to `1`.
        shuffle: bool. See `PretrainingData.batches`. Defaults to `True`.

    Raises:
        ValueError: If a number is out of range.
    """

    def __init__(
        self,
        data: "PretrainingData",
        batch_size: int,
        sequence_length: int,
        accumulation_steps: int = 1,
        shuffle: bool = True,
    ) -> None:
        _check(data, batch_size, sequence_length, accumulation_steps)
        self.data = data
        self.batch_size = batch_size
        self.sequence_length = sequence_length
        self.accumulation_steps = accumulation_steps
        self.shuffle = shuffle
        tokenizer = data.tokenizer
        self._special = SpecialIds(
            tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
        )
        # Caches of the last results, by number.
        self._order = lru_cache(maxsize=2)(self._new_order)
        self._whole = lru_cache(maxsize=1)(self._new_whole)

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches that contain all examples."""
        return -(-len(self.data) // self.batch_size)

    @property
    def slots(self) -> int:
        """The number of predictions in a row, including empty ones."""
        return self.data.masking.rates.slots(self.sequence_length)

    def batch(self, step: int, shard: int = 0, num_shards: int = 1) -> Batch:
        """Return a batch, or the part of a process.

        Args:
            step: int. The number of the batch.
            shard: int. The number of the part. Defaults to `0`.
            num_shards: int. The number of parts. Defaults to `1`.

        Returns:
            `(x, y, sample_weight)`, NumPy arrays.

        Raises:
            ValueError: If there is no such batch, or no such part.
        """
        self._check_place(step, shard, num_shards)
        whole, number = divmod(step, self.accumulation_steps)
        size = self.batch_size // num_shards
        begin = number * self.batch_size + shard * size
        batch: Batch = keras.tree.map_structure(
            lambda array: array[begin : begin + size], self._whole(whole)
        )
        return batch

    def tf_dataset(
        self,
        start: int = 0,
        stop: int | None = None,
        shard: int = 0,
        num_shards: int = 1,
    ) -> Any:
        """Return the batches as a `tf.data.Dataset`.

        Args:
            start: int. The number of the first batch. Defaults to `0`.
            stop: int or `None`. The number after the last batch. Defaults to `None`,
                one epoch.
            shard: int. As in `batch`. Defaults to `0`.
            num_shards: int. As in `batch`. Defaults to `1`.

        Returns:
            A dataset of `(x, y, sample_weight)` with static shapes and without
            options: add `prefetch`, `with_options` as needed.
        """
        import tensorflow as tf  # noqa: PLC0415

        stop = start + self.steps_per_epoch if stop is None else stop
        signature = keras.tree.map_structure(
            lambda array: tf.TensorSpec(array.shape, array.dtype),
            self.batch(start, shard, num_shards),
        )

        def generate() -> Iterator[Batch]:
            for step in range(start, stop):
                yield self.batch(step, shard, num_shards)

        return tf.data.Dataset.from_generator(generate, output_signature=signature)

    def _new_whole(self, number: int) -> Batch:
        """Make all batches of one optimizer step."""
        count = self.batch_size * self.accumulation_steps
        places = number * count + np.arange(count)
        epochs, within = np.divmod(places, len(self.data))
        entropy = [self.data.seed, number]
        if self.shuffle:
            rows = np.empty_like(within)
            for epoch in np.unique(epochs).tolist():
                here = epochs == epoch
                rows[here] = self._order(epoch)[within[here]]
            real = np.ones(count, np.float32)
        else:
            # The last example is followed by rows of weight 0.
            rows, real = within, (epochs == 0).astype(np.float32)
        return self._masked(rows, real, np.random.default_rng(entropy))

    def _new_order(self, epoch: int) -> Int64Array:
        # The third number distinguishes this seed from those of masks.
        generator = np.random.default_rng([self.data.seed, epoch, 1])
        return generator.permutation(len(self.data))

    def _masked(
        self, rows: Int64Array, real: Any, generator: np.random.Generator
    ) -> Batch:
        pairs = self.data.segments(rows)
        if self.shuffle and self.data.second_task is None:
            pairs = _windows(pairs, self.sequence_length - _SPECIALS, generator)
        drawn = draw_pairs(
            self._encoded(pairs),
            self._encoded(self._changed(pairs, rows, generator)),
            self.data.masking,
            generator,
            np.arange(len(rows)),
            self.sequence_length,
        )
        masked_weights = drawn.weights * real[:, None]
        if self.shuffle:
            masked_weights *= masked_weights.size / max(masked_weights.sum(), 1)
        if self.data.second_task is None:
            return drawn.x, drawn.labels, masked_weights
        name = "sentence_order"
        y = {"masked_lm": drawn.labels, name: drawn.changed}
        return drawn.x, y, {"masked_lm": masked_weights, name: real}

    def _encoded(self, pairs: tuple[TokenRows, TokenRows]) -> EncodedTexts:
        return EncodedTexts(pairs, self._special, self.sequence_length)

    def _changed(
        self,
        pairs: tuple[TokenRows, TokenRows],
        rows: Int64Array,
        generator: np.random.Generator,
    ) -> tuple[TokenRows, TokenRows]:
        """Return the pairs that replace half of the given ones."""
        first, second = pairs
        if self.data.second_task == "sentence_order":
            return second, first
        if self.data.second_task is None:
            return pairs
        others = self.data.segments(self.data.other_documents(rows, generator))
        return first, _of_lengths(others, second.lengths)

    def _check_place(self, step: int, shard: int, num_shards: int) -> None:
        steps = self.steps_per_epoch
        if step < 0 or not (self.shuffle or step < steps):
            rule = "0 or more" if self.shuffle else f"from 0 to {steps - 1}"
            raise ValueError(f"`step` must be {rule}. Received: step={step}")
        if self.batch_size % num_shards or not 0 <= shard < num_shards:
            msg = (
                f"`batch_size`, {self.batch_size}, must be a multiple of `num_shards`, "
                "and `shard` at least 0 and less than `num_shards`. Received: "
                f"shard={shard}, num_shards={num_shards}"
            )
            raise ValueError(msg)


def _windows(
    pairs: tuple[TokenRows, TokenRows], length: int, generator: np.random.Generator
) -> tuple[TokenRows, TokenRows]:
    """Cut pairs that are too long to `length` consecutive tokens at a random position.

    Truncation would train on the same beginnings of segments in each epoch. A window
    within one segment becomes the first segment of its row.
    """
    first, second = pairs
    total = first.lengths + second.lengths
    begin = generator.integers(np.maximum(total - length, 0) + 1)
    end = np.minimum(begin + length, total)
    cut = np.clip(first.lengths, begin, end)
    cut = np.where(cut == begin, end, cut)
    # The two segments of a row are adjacent in the text.
    order = np.argsort(np.tile(np.arange(len(first)), 2), kind="stable")
    both = TokenRows(
        np.concatenate([first.values, second.values]),
        np.concatenate([first.lengths, second.lengths]),
    ).take(order)
    starts = both.starts[::2]

    def part(start: Int64Array, stop: Int64Array) -> TokenRows:
        lengths = stop - start
        return TokenRows(both.values[ragged_range(starts + start, lengths)], lengths)

    return part(begin, cut), part(cut, end)


def _of_lengths(pairs: tuple[TokenRows, TokenRows], lengths: Int64Array) -> TokenRows:
    """Cut texts of given lengths, so that lengths do not reveal the replacement.

    Each begins with the second segment, or earlier if that is too short.
    """
    both = zip(*(rows.to_lists() for rows in pairs), strict=True)
    texts = []
    for (first, second), length in zip(both, lengths.tolist(), strict=True):
        begin = max(0, min(len(first), len(first) + len(second) - length))
        texts.append([*first, *second][begin : begin + length])
    return TokenRows.from_lists(texts)


def _check(
    data: "PretrainingData",
    batch_size: int,
    sequence_length: int,
    accumulation_steps: int,
) -> None:
    check_positive(batch_size=batch_size, accumulation_steps=accumulation_steps)
    if not 5 <= sequence_length <= data.sequence_length:
        msg = (
            "`sequence_length` must be from 5 (three special tokens and two others) "
            f"to {data.sequence_length}, for which the examples were prepared. "
            f"Received: sequence_length={sequence_length}"
        )
        raise ValueError(msg)
