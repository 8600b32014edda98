"""Reads prepared examples to train on."""

import os
from typing import Literal, TypeAlias

import numpy as np

from keras_albert.pretraining.data.batches import PretrainingBatches
from keras_albert.pretraining.data.example_file import ExampleFile, gather
from keras_albert.pretraining.data.metadata import (
    SPLITS,
    VOCABULARY_FILE,
    PreparedMetadata,
    Split,
)
from keras_albert.text.masked_lm.whole_word_masking import (
    MaskingRates,
    WholeWordMasking,
)
from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer
from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.types import Int64Array
from keras_albert.utils.arguments import check_at_least
from keras_albert.utils.local_path import local_path

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
            msg = (
                f"{directory} has no {split} examples. Prepare more text, or with "
                "another `held_out`."
            )
            raise ValueError(msg)
        self._documents = np.concatenate([file.documents for file in self._files])
        one_document = self._documents.min() == self._documents.max()
        if second_task == "next_sentence" and one_document:
            msg = (
                f"The {split} examples of {directory} are all from one document, but "
                "next-sentence prediction needs several. Prepare more text."
            )
            raise ValueError(msg)

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

    def other_documents(
        self, rows: Int64Array, generator: np.random.Generator
    ) -> Int64Array:
        """Draw for each example one from another document.

        Args:
            rows: int64 array `(batch,)`.
            generator: `np.random.Generator`.

        Returns:
            int64 array `(batch,)`.
        """
        others = generator.integers(self._count, size=len(rows))
        while len(
            same := np.flatnonzero(self._documents[others] == self._documents[rows])
        ):
            others[same] = generator.integers(self._count, size=len(same))
        return others


def _check(split: str, second_task: str | None, seed: int) -> None:
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {SPLITS}. Received: split={split!r}")
    if second_task not in ("sentence_order", "next_sentence", None):
        msg = (
            "`second_task` must be 'sentence_order', 'next_sentence' or None. "
            f"Received: second_task={second_task!r}"
        )
        raise ValueError(msg)
    check_at_least(0, seed=seed)
