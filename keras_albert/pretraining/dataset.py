"""Prepared examples as batches: data, stages of a run, the validation set."""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, Self, TypeAlias

import keras
import numpy as np

from keras_albert.pretraining.config import PretrainingConfig
from keras_albert.pretraining.prepared_files import (
    SPLITS,
    VOCABULARY_FILE,
    ExampleFile,
    PreparedMetadata,
    Split,
    gather,
)
from keras_albert.text.masking import MaskingRates, WholeWordMasking
from keras_albert.text.packing import EncodedTexts, SpecialIds
from keras_albert.text.tasks.masked_lm import draw_pairs
from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer
from keras_albert.text.tokenizer.token_rows import TokenRows, ragged_range
from keras_albert.types import Batch, Int64Array
from keras_albert.utils.arguments import check_at_least, check_positive
from keras_albert.utils.reading import local_path

_NUM_SPECIALS = 3  # [CLS] and two [SEP]


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
        check_positive(batch_size=batch_size, accumulation_steps=accumulation_steps)
        if not 5 <= sequence_length <= data.sequence_length:
            raise ValueError(
                "`sequence_length` must be from 5 (three special tokens and two "
                f"others) to {data.sequence_length}, for which the examples were "
                f"prepared. Received: sequence_length={sequence_length}"
            )
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
            pairs = _windows(pairs, self.sequence_length - _NUM_SPECIALS, generator)
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
        others = self.data.segments(draw_others(self.data.documents, rows, generator))
        return first, _of_lengths(others, second.lengths)

    def _check_place(self, step: int, shard: int, num_shards: int) -> None:
        steps = self.steps_per_epoch
        if step < 0 or not (self.shuffle or step < steps):
            rule = "0 or more" if self.shuffle else f"from 0 to {steps - 1}"
            raise ValueError(f"`step` must be {rule}. Received: step={step}")
        if self.batch_size % num_shards or not 0 <= shard < num_shards:
            raise ValueError(
                f"`batch_size`, {self.batch_size}, must be a multiple of `num_shards`, "
                "and `shard` at least 0 and less than `num_shards`. Received: "
                f"shard={shard}, num_shards={num_shards}"
            )


def _windows(
    pairs: tuple[TokenRows, TokenRows], length: int, generator: np.random.Generator
) -> tuple[TokenRows, TokenRows]:
    """Cut pairs that are too long to `length` tokens at a random position."""
    # Truncation would train on the same beginnings in each epoch. A window within one
    # segment becomes the first segment of its row.
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
    """Cut texts of given lengths, so that lengths do not reveal the replacement."""
    # Each begins with the second segment, or earlier if that is too short.
    both = zip(*(rows.to_lists() for rows in pairs), strict=True)
    texts = []
    for (first, second), length in zip(both, lengths.tolist(), strict=True):
        begin = max(0, min(len(first), len(first) + len(second) - length))
        texts.append([*first, *second][begin : begin + length])
    return TokenRows.from_lists(texts)


SecondTask: TypeAlias = Literal["sentence_order", "next_sentence"]


class PretrainingData:
    """A split of a directory that `prepare_examples` wrote.

    Examples are memory-mapped, so files may be of any size. Segments are swapped and
    words masked when a batch is made, differently in each epoch.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), section 3.1.

    Args:
        directory: string or path. The `output` of `prepare_examples`.
        split: string. `"train"` or `"held_out"`. Defaults to `"train"`.
        second_task: string or `None`. `"sentence_order"`: half of the pairs are
            swapped. `"next_sentence"`: half get another document's second segment.
            `None`: the pairs are unchanged, and only masked tokens are predicted.
            Defaults to `"sentence_order"`.
        rates: `MaskingRates`, or `None` for those of the paper. Defaults to `None`.
        seed: int. The same seed yields the same batches. Defaults to `0`.

    Raises:
        ValueError: If the directory is incomplete, has no such split, a file is not
            the one that was prepared, or an argument is out of range.

    Example: see `prepare_examples`, which writes such a directory.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        split: Split = "train",
        second_task: SecondTask | None = "sentence_order",
        rates: MaskingRates | None = None,
        seed: int = 0,
    ) -> None:
        _check(split, second_task, seed)
        self.directory = local_path(directory)
        self.split = split
        self.second_task = second_task
        self.seed = seed
        self.metadata = PreparedMetadata.read(self.directory)
        self.sequence_length = self.metadata.sequence_length
        self.tokenizer = AlbertTokenizer(
            self.directory / VOCABULARY_FILE, text_rules="keep"
        )
        self.masking = WholeWordMasking(self.tokenizer, rates)
        self._files = [
            ExampleFile(str(self.directory / name), self.metadata.files.get(name))
            for name in self.metadata.shards[split]
        ]
        self._count = sum(map(len, self._files))
        if not self._count:
            raise ValueError(
                f"{directory} has no {split} examples. Prepare more text, or with "
                "another `held_out`."
            )
        self.documents = np.concatenate([file.documents for file in self._files])
        one_document = self.documents.min() == self.documents.max()
        if second_task == "next_sentence" and one_document:
            raise ValueError(
                f"The {split} examples of {directory} are all from one document, but "
                "next-sentence prediction needs several. Prepare more text."
            )

    def __len__(self) -> int:
        return self._count

    @property
    def num_tokens(self) -> int:
        """The number of tokens in all examples, without special tokens."""
        return sum(file.num_tokens for file in self._files)

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
        """
        return PretrainingBatches(
            self,
            batch_size,
            sequence_length or self.sequence_length,
            accumulation_steps,
            shuffle,
        )

    def segments(self, rows: Int64Array) -> tuple[TokenRows, TokenRows]:
        """Return both segments of some examples, in order.

        Args:
            rows: int64 array `(batch,)`.

        Returns:
            The first segments, and the second ones.
        """
        return gather(self._files, rows)


def draw_others(
    documents: Any, rows: Int64Array, generator: np.random.Generator
) -> Int64Array:
    """Draw for each row an example of another document."""
    others = generator.integers(len(documents), size=len(rows))
    while len(same := np.flatnonzero(documents[others] == documents[rows])):
        others[same] = generator.integers(len(documents), size=len(same))
    return others


def _check(split: str, second_task: str | None, seed: int) -> None:
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {SPLITS}. Received: split={split!r}")
    if second_task not in ("sentence_order", "next_sentence", None):
        raise ValueError(
            "`second_task` must be 'sentence_order', 'next_sentence' or None. "
            f"Received: second_task={second_task!r}"
        )
    check_at_least(0, seed=seed)


# The same for every run, whatever it masks in training, so that runs are comparable:
# 15% of the tokens, single words, all of them replaced by [MASK].
EVALUATION_MASKS = MaskingRates(
    mask_selection_rate=0.15, mask_token_rate=1.0, random_token_rate=0.0, max_ngram=1
)

# The number of examples that are masked together.
_READ = 256


@dataclass(frozen=True)
class HeldOut:
    """Held-out examples as arrays, with fixed masks."""

    # Weights are scaled so that averages over batches of any size are averages over the
    # masked tokens, or over the pairs.

    arrays: Batch
    # The scores without reading the texts, by metric.
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
        # Read in parts of fixed size, so that masks do not depend on the batch size.
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
    begin: int
    data: PretrainingData

    @property
    def end(self) -> int:
        """The number of batches of the run at the end of the stage."""
        return self.begin + self.config.steps * self.config.accumulation_steps

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
        """Return the batches, counted from the beginning of the stage."""
        return self.data.batches(
            self.config.micro_batch_size,
            self.sequence_length,
            accumulation_steps=self.config.accumulation_steps,
        )

    def held_out(self) -> HeldOut:
        """Read the validation set, in rows of the stage's length."""
        return HeldOut.read(
            read_data(self.config, "held_out"),
            self.config.evaluation_examples,
            self.config.micro_batch_size,
            self.sequence_length,
        )


def read_stages(config: PretrainingConfig) -> list[Stage]:
    """Open the data of a run."""
    stages: list[Stage] = []
    for each in config.stage_settings:
        begin = stages[-1].end if stages else 0
        stages.append(Stage(each, begin, read_data(each, "train")))
    return stages


def read_data(config: PretrainingConfig, split: Any) -> PretrainingData:
    """Open a split of the data of a run."""
    second_task: Any = None if config.second_task == "none" else config.second_task
    masks = config.masking_rates if split == "train" else EVALUATION_MASKS
    return PretrainingData(config.data, split, second_task, masks, config.seed)
