"""Prepared examples as batches: data, stages of a run, the validation set."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Self, TypeAlias

import keras
import numpy as np

from keras_albert.devices.batch_sharding import MASKED_TOKENS
from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.pretraining import prepared_files
from keras_albert.pretraining.config import PretrainingConfig
from keras_albert.text.masking import (
    MaskingRates,
    RowDraws,
    WholeWordMasking,
    draw_pairs,
    permute,
)
from keras_albert.text.packing import EncodedTexts, SpecialIds, TokenRows, ragged_range
from keras_albert.types import Batch, Int64Array
from keras_albert.utils.arguments import (
    check_at_least,
    check_at_most,
    check_choice,
    check_positive,
)
from keras_albert.utils.remote import fetch

_NUM_SPECIALS = 3  # [CLS] and two [SEP]

# Fewer rows at a time take longer: each operation on arrays has a fixed cost.
_ROWS_AT_ONCE = 512


class PretrainingBatches:
    """Batches by number, counted from 0; see `PretrainingData.batches`.

    With a second task, longer pairs are truncated, and keep the starts of both
    segments. Without a second task, each epoch reads another part of them.

    `batch(step)` depends only on the data, its seed and the arguments, so that a
    resumed run continues with the next number. Orders and masks are functions of the
    seed, the epoch and the example, so that a process reads only its part of a batch,
    and memory does not depend on the number of examples.

    `x` contains `token_ids`, `segment_ids`, `padding_mask` `(rows, sequence_length)`
    and `mask_positions` `(rows, slots)`. `y` and `sample_weight` are dicts of
    `masked_lm` `(rows, slots)` and the second task `(rows,)`, or the array of
    `masked_lm` if there is none.

    Weights: the mean over all cells of `weight * loss`, averaged over the batches of an
    optimizer step, is the mean over its masked tokens, or pairs. For a part of a batch
    it is the mean over the part, and `x` also contains `masked_tokens` `(rows,)`, the
    number of masked tokens of the part in the step: the training step of a task weighs
    the parts by it. Without `shuffle`, weights are 1 and 0: divide the sum by the sum
    of the weights.

    Args:
        data: `PretrainingData`.
        batch_size: int. Examples in a batch.
        sequence_length: int. The length of rows.
        accumulation_steps: int. Batches per optimizer step. Defaults to `1`.
        shuffle: bool. See `PretrainingData.batches`. Defaults to `True`.

    Raises:
        ValueError: If a number is out of range.

    Example:
        >>> from keras_albert.pretraining import PretrainingData
        >>> batches = PretrainingData("prepared").batches(4)
        >>> batches.steps_per_epoch
        3
    """

    def __init__(
        self,
        data: "PretrainingData",
        batch_size: int,
        sequence_length: int,
        accumulation_steps: int = 1,
        shuffle: bool = True,
    ) -> None:
        check_positive(batch_size=batch_size, accumulation_steps=accumulation_steps)
        # Three special tokens and two others; the examples are as long as prepared.
        check_at_least(_NUM_SPECIALS + 2, sequence_length=sequence_length)
        check_at_most(data.sequence_length, sequence_length=sequence_length)
        self.data = data
        self.batch_size = batch_size
        self.sequence_length = sequence_length
        self.accumulation_steps = accumulation_steps
        self.shuffle = shuffle
        self._special = SpecialIds.of(data.tokenizer.vocabulary)
        # The last rows.
        self._block = lru_cache(maxsize=1)(self._new_block)

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches that contain all examples."""
        return -(-len(self.data) // self.batch_size)

    @property
    def slots(self) -> int:
        """The number of predictions in a row, including empty ones."""
        return self.data.masking.rates.slots(self.sequence_length)

    def batch(self, step: int, shard: int = 0, num_shards: int = 1) -> Batch:
        """Return a batch, or one process's part of it.

        Args:
            step: int. The number of the batch.
            shard: int. The number of the part. Defaults to `0`.
            num_shards: int. The number of parts. Defaults to `1`.

        Returns:
            `(x, y, sample_weight)`, NumPy arrays.

        Raises:
            ValueError: If there is no such batch, or no such part.

        Example:
            >>> batches = PretrainingData("prepared").batches(4, sequence_length=64)
            >>> x, y, weights = batches.batch(0)
            >>> x["token_ids"].shape, y["sentence_order"].shape
            ((4, 64), (4,))
        """
        check_at_least(0, step=step, shard=shard)
        check_at_most(num_shards - 1, shard=shard)
        if not self.shuffle:
            check_at_most(self.steps_per_epoch - 1, step=step)
        if self.batch_size % num_shards:
            raise ValueError(
                f"`batch_size`, {self.batch_size}, must be a multiple of `num_shards`. "
                f"Received: num_shards={num_shards}"
            )
        size, parts = self.batch_size // num_shards, self.accumulation_steps
        updates = max(1, _ROWS_AT_ONCE // (size * parts))
        block, within = divmod(step, updates * parts)
        rows = slice(within * size, (within + 1) * size)
        return keras.tree.map_structure(
            lambda array: array[rows],
            self._block(block * updates, updates, shard, num_shards),
        )

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

        Example:
            >>> dataset = PretrainingData("prepared").batches(4).tf_dataset()
            >>> dataset.element_spec[0]["token_ids"].shape.as_list()
            [4, 512]
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

    def _new_block(
        self, first: int, updates: int, shard: int, num_shards: int
    ) -> Batch:
        """Make the rows of a process in the batches of some optimizer steps."""
        size, parts = self.batch_size // num_shards, self.accumulation_steps
        steps = first * parts + np.arange(updates * parts)
        places = steps[:, None] * self.batch_size + shard * size + np.arange(size)
        count, seed = len(self.data), self.data.seed
        epochs, rows = np.divmod(places.reshape(-1), count)
        real = np.ones(len(rows), np.float32)
        if self.shuffle:
            for epoch in np.unique(epochs).tolist():
                here = epochs == epoch
                rows[here] = permute(rows[here], count, seed, epoch)
        else:
            # The last example is followed by rows of weight 0.
            real *= epochs == 0
        draws = RowDraws(seed, epochs, rows)
        pairs = self.data.segments(rows)
        if self.shuffle and self.data.second_task is None:
            pairs = _windows(pairs, self.sequence_length - _NUM_SPECIALS, draws)
        left, right = (
            EncodedTexts(each, self._special, self.sequence_length)
            for each in (pairs, self._changed(pairs, rows, epochs))
        )
        inputs, labels, masked, changed = draw_pairs(
            left,
            right,
            self.data.masking,
            draws,
            np.arange(len(rows)),
            self.sequence_length,
        )
        x: dict[str, Any] = inputs
        masked *= real[:, None]
        if self.shuffle:
            totals = np.maximum(masked.reshape(updates, -1).sum(axis=1), 1)
            totals = np.repeat(totals, size * parts)
            masked *= (size * parts * masked.shape[1] / totals)[:, None]
            if num_shards > 1:
                x[MASKED_TOKENS] = totals
        if self.data.second_task is None:
            return x, labels, masked
        y = {"masked_lm": labels, "sentence_order": changed}
        return x, y, {"masked_lm": masked, "sentence_order": real}

    def _changed(
        self, pairs: tuple[TokenRows, TokenRows], rows: Int64Array, epochs: Int64Array
    ) -> tuple[TokenRows, TokenRows]:
        """Return the pairs that replace half of the given ones."""
        first, second = pairs
        if self.data.second_task == "sentence_order":
            return second, first
        if self.data.second_task is None:
            return pairs
        # The last number distinguishes these draws from the draws of masks.
        others = self.data.files.draw_others(
            rows, RowDraws(self.data.seed, epochs, rows, 1)
        )
        return first, _of_lengths(self.data.segments(others), second.lengths)


def _windows(
    pairs: tuple[TokenRows, TokenRows], length: int, draws: RowDraws
) -> tuple[TokenRows, TokenRows]:
    # Truncation would train on the same starts in each epoch. A window within one
    # segment becomes the first segment of its row.
    first, second = pairs
    total = first.lengths + second.lengths
    places = np.maximum(total - length, 0) + 1
    start = (draws.random(np.arange(len(total))) * places).astype(np.int64)
    end = np.minimum(start + length, total)
    cut = np.clip(first.lengths, start, end)
    cut = np.where(cut == start, end, cut)
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

    return part(start, cut), part(cut, end)


def _of_lengths(pairs: tuple[TokenRows, TokenRows], lengths: Int64Array) -> TokenRows:
    """Cut texts of given lengths, so that lengths do not reveal the replacement."""
    # Each starts with the second segment, or earlier if that is too short.
    both = zip(*(rows.to_lists() for rows in pairs), strict=True)
    texts = []
    for (first, second), length in zip(both, lengths.tolist(), strict=True):
        start = max(0, min(len(first), len(first) + len(second) - length))
        texts.append([*first, *second][start : start + length])
    return TokenRows.from_lists(texts)


SecondTask: TypeAlias = Literal["sentence_order", "next_sentence"]


class PretrainingData:
    """A split of a directory that `prepare_examples` wrote.

    Examples are read when a batch is made, so files may be of any size and number.
    Segments are swapped and words masked then, differently in each epoch.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), section 3.1.

    Args:
        directory: string or path. The `output` of `prepare_examples`; one in a remote
            storage is downloaded, once for each content.
        split: string. `"train"` or `"held_out"`. Defaults to `"train"`.
        second_task: string or `None`. `"sentence_order"`: half of the pairs are
            swapped. `"next_sentence"`: half get another document's second segment.
            `None`: the pairs are unchanged, and only masked tokens are predicted.
            Defaults to `"sentence_order"`.
        rates: `MaskingRates`, or `None` for the paper's. Defaults to `None`.
        seed: int. The same seed yields the same batches. Defaults to `0`.

    Raises:
        ValueError: If the directory is incomplete, has no such split, a file is not
            the one that was prepared, or an argument is out of range.

    Example:
        >>> from keras_albert.pretraining import PretrainingData
        >>> data = PretrainingData("prepared")  # written by `prepare_examples`
        >>> len(data), data.sequence_length
        (9, 512)
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        split: prepared_files.Split = "train",
        second_task: SecondTask | None = "sentence_order",
        rates: MaskingRates | None = None,
        seed: int = 0,
    ) -> None:
        check_choice(prepared_files.SPLITS, split=split)
        check_choice(("sentence_order", "next_sentence", None), second_task=second_task)
        check_at_least(0, seed=seed)
        self.directory = fetch(directory)
        self.split = split
        self.second_task = second_task
        self.seed = seed
        self.metadata = prepared_files.PreparedMetadata.read(self.directory)
        self.sequence_length = self.metadata.sequence_length
        self.tokenizer = AlbertTokenizer(
            self.directory / prepared_files.VOCABULARY_FILE, text_rules="keep"
        )
        self.masking = WholeWordMasking(self.tokenizer.vocabulary, rates)
        self.files = prepared_files.ExampleFiles(
            [str(self.directory / name) for name in self.metadata.shards[split]],
            self.metadata.files,
        )
        if not len(self):
            raise ValueError(
                f"{directory} has no {split} examples. Prepare more text, or with "
                "another `held_out`."
            )
        if second_task == "next_sentence" and self.files.has_one_document():
            raise ValueError(
                f"The {split} examples of {directory} are all from one document, but "
                "next-sentence prediction needs several. Prepare more text."
            )

    def __len__(self) -> int:
        return len(self.files)

    @property
    def num_tokens(self) -> int:
        """The number of tokens in all examples, without special tokens."""
        return self.files.num_tokens

    def batches(
        self,
        batch_size: int,
        sequence_length: int | None = None,
        accumulation_steps: int = 1,
        shuffle: bool = True,
    ) -> PretrainingBatches:
        """Return batches of the examples.

        Args:
            batch_size: int. Examples in a batch, on all devices together.
            sequence_length: int or `None`. The length of rows, at most the prepared
                one. Defaults to `None`, the prepared length.
            accumulation_steps: int. Batches per optimizer step. Defaults to `1`.
            shuffle: bool. If `True`, epochs follow each other, each in a different
                order; else each example occurs once, always with the same masks.
                Defaults to `True`.

        Returns:
            `PretrainingBatches`.

        Raises:
            ValueError: If a number is out of range.

        Example:
            >>> batches = PretrainingData("prepared").batches(2, sequence_length=128)
            >>> batches.batch(7)[0]["segment_ids"].shape
            (2, 128)
        """
        length = sequence_length or self.sequence_length
        return PretrainingBatches(self, batch_size, length, accumulation_steps, shuffle)

    def segments(self, rows: Int64Array) -> tuple[TokenRows, TokenRows]:
        """Return both segments of some examples, in order.

        Args:
            rows: int64 array `(batch,)`.

        Returns:
            The first segments, and the second ones.

        Example:
            >>> data = PretrainingData("prepared")
            >>> first, second = data.segments(np.array([3, 0]))
            >>> len(first), len(second)
            (2, 2)
        """
        return self.files.segments(rows)


# The same for every run, whatever it masks in training, so that runs are comparable:
# 15% of the tokens, single words, all of them replaced by [MASK].
EVALUATION_MASKS = MaskingRates(
    mask_selection_rate=0.15, mask_token_rate=1.0, random_token_rate=0.0, max_ngram=1
)


@dataclass(frozen=True)
class HeldOut:
    """Held-out examples as arrays, with fixed masks."""

    # Weights are scaled so that averages over batches of any size are averages over the
    # masked tokens, or over the pairs.

    arrays: Batch
    # The accuracies of the most frequent label, by metric.
    baselines: dict[str, float]
    # The mean length of the masked tokens, including a leading space.
    characters_per_token: float

    @classmethod
    def read(
        cls,
        data: PretrainingData,
        max_examples: int,
        batch_size: int,
        sequence_length: int | None,
    ) -> Self:
        """Read the first examples; rows of weight 0 fill the last batch."""
        count = min(max_examples, len(data))
        batches = data.batches(batch_size, sequence_length, shuffle=False)
        parts = list(map(batches.batch, range(-(-count // batch_size))))
        x, y, weights = keras.tree.map_structure(
            lambda *arrays: np.concatenate(arrays), *parts
        )
        for each in keras.tree.flatten(weights):
            each[count:] = 0
        baselines = keras.tree.map_structure(_most_frequent, y, weights)
        if isinstance(baselines, float):
            baselines = {"masked_lm": baselines}
        weights = keras.tree.map_structure(lambda w: w * (w.size / w.sum()), weights)
        named = {f"{name}_accuracy": share for name, share in baselines.items()}
        labels, counted = _of_masked_tokens(y), _of_masked_tokens(weights)
        widths = np.array(list(map(len, data.tokenizer.vocabulary.texts)))
        return cls((x, y, weights), named, float(widths[labels[counted > 0]].mean()))

    def bits_per_character(self, masked_lm_loss: float) -> float:
        """Convert a loss per masked token, in nats, which depends on the vocabulary."""
        return masked_lm_loss / math.log(2) / self.characters_per_token

    @property
    def num_masked(self) -> int:
        """The number of masked tokens."""
        return int(np.count_nonzero(_of_masked_tokens(self.arrays[2])))


def _of_masked_tokens(values: Any) -> Any:
    return values["masked_lm"] if isinstance(values, dict) else values


def _most_frequent(labels: Any, weights: Any) -> float:
    """Return the accuracy of always predicting the most frequent label."""
    counts = np.bincount(labels[weights > 0])
    return float(counts.max() / counts.sum())


@dataclass(frozen=True)
class Stage:
    """A stage of a run."""

    config: PretrainingConfig
    # The number of the first batch, counted over the whole run.
    start: int
    data: PretrainingData

    @property
    def end(self) -> int:
        """The number of batches of the run at the end of the stage."""
        return self.start + self.config.steps * self.config.accumulation_steps

    @property
    def sequence_length(self) -> int:
        """Tokens in a row."""
        return self.config.sequence_length or self.data.sequence_length

    @property
    def tokens_per_example(self) -> float:
        """The mean number of tokens in a row, without padding."""
        mean = self.data.num_tokens / len(self.data) + 3
        return min(self.sequence_length, mean)

    def batches(self) -> PretrainingBatches:
        """Return the batches, counted from the start of the stage."""
        size, parts = self.config.micro_batch_size, self.config.accumulation_steps
        return self.data.batches(size, self.sequence_length, parts)

    def held_out(self) -> HeldOut:
        """Read the validation set, in rows of the stage's length."""
        data, most = read_data(self.config, "held_out"), self.config.evaluation_examples
        size = self.config.micro_batch_size
        return HeldOut.read(data, most, size, self.sequence_length)


def read_stages(config: PretrainingConfig) -> list[Stage]:
    """Open the data of a run."""
    stages: list[Stage] = []
    for each in config.stage_settings:
        start = stages[-1].end if stages else 0
        stages.append(Stage(each, start, read_data(each, "train")))
    return stages


def read_data(config: PretrainingConfig, split: Any) -> PretrainingData:
    """Open a split of the data of a run."""
    second_task: Any = None if config.second_task == "none" else config.second_task
    masks = config.masking_rates if split == "train" else EVALUATION_MASKS
    return PretrainingData(config.data, split, second_task, masks, config.seed)
