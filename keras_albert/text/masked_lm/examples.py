"""Examples with masked tokens to predict."""

from typing import Any, NamedTuple

import numpy as np

from keras_albert.text.masked_lm.batch_seeds import Seeds, join_parts
from keras_albert.text.masked_lm.whole_word_masking import (
    WholeWordMasking,
    number_in_row,
)
from keras_albert.text.packing.pack import EncodedTexts
from keras_albert.types import Batch, FloatArray, Int64Array, IntArray


class MaskedTexts:
    """Texts that are masked when they are packed; see `Examples`."""

    def __init__(
        self,
        texts: EncodedTexts,
        masking: WholeWordMasking,
        seeds: Seeds,
        sample_weight: FloatArray | None = None,
    ) -> None:
        self.texts = texts
        self.lengths = texts.lengths
        self.masking = masking
        self.seeds = seeds
        self.sample_weight = sample_weight

    def __len__(self) -> int:
        return len(self.texts)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack and mask some rows; see `Examples`."""
        parts = self.seeds.parts(rows)
        return join_parts([self._draw(part, length, rng) for part, rng in parts])

    def _draw(self, rows: Int64Array, length: int, rng: np.random.Generator) -> Batch:
        packed = self.texts.pack(rows, length)
        masked = self.masking(packed["token_ids"], rng)
        x = packed | {
            "token_ids": masked.token_ids,
            "mask_positions": masked.positions,
        }
        weights = masked.weights
        if self.sample_weight is not None:
            weights = weights * self.sample_weight[rows, None]
        return x, masked.labels, weights


class MaskedPairs(NamedTuple):
    """A batch of masked pairs, some of them changed.

    `labels` and `weights` are `(rows, slots)`, the original ids and 1, or 0 in unused
    slots; `changed` is 1 for a changed pair.
    """

    x: dict[str, IntArray]
    labels: IntArray
    weights: FloatArray
    changed: IntArray


def draw_pairs(
    pairs: EncodedTexts,
    changed_pairs: EncodedTexts,
    masking: WholeWordMasking,
    generator: np.random.Generator,
    rows: Int64Array,
    length: int,
) -> MaskedPairs:
    """Pack some pairs, each changed with probability 0.5, and mask them.

    `changed_pairs` are the same pairs, swapped or with other second texts.
    """
    changed = generator.random(len(rows)) < 0.5
    x: dict[str, IntArray] = {}
    for texts, here in ((pairs, ~changed), (changed_pairs, changed)):
        for name, packed in texts.pack(rows[here], length).items():
            x.setdefault(name, np.empty((len(rows), length), np.int32))[here] = packed
    masked = masking(x["token_ids"], generator)
    x |= {"token_ids": masked.token_ids, "mask_positions": masked.positions}
    return MaskedPairs(x, masked.labels, masked.weights, changed.astype(np.int32))


class SegmentPairs(MaskedTexts):
    """Pairs that are swapped with probability 0.5, and masked, when they are packed.

    The target of `sentence_order` is 1 for a swapped pair. After truncation a pair is
    as long as its swapped one.
    """

    def __init__(
        self,
        texts: EncodedTexts,
        swapped: EncodedTexts,
        masking: WholeWordMasking,
        seeds: Seeds,
        sample_weight: FloatArray | None = None,
    ) -> None:
        super().__init__(texts, masking, seeds, sample_weight)
        self.swapped = swapped

    def _draw(self, rows: Int64Array, length: int, rng: np.random.Generator) -> Batch:
        drawn = draw_pairs(self.texts, self.swapped, self.masking, rng, rows, length)
        y = {"masked_lm": drawn.labels, "sentence_order": drawn.changed}
        weight = np.ones(len(rows), np.float32)
        if self.sample_weight is not None:
            weight = self.sample_weight[rows]
        weights = {
            "masked_lm": drawn.weights * weight[:, None],
            "sentence_order": weight,
        }
        return drawn.x, y, weights


class WrittenMasks:
    """Texts that contain mask tokens to fill; see `Examples`."""

    def __init__(self, texts: EncodedTexts, mask_token_id: int) -> None:
        self.texts = texts
        self.lengths = texts.lengths
        self.mask_token_id = mask_token_id
        # The number of masks in each row before truncation.
        self.written = np.zeros(len(texts), np.int64)
        for column in texts.columns:
            row = np.repeat(np.arange(len(texts)), column.lengths)
            masks = row[column.values == mask_token_id]
            self.written += np.bincount(masks, minlength=len(texts))
        # The same for all batches, so that outputs do not depend on the batch; a power
        # of two, since the model is compiled for each number.
        most = int(self.written.max(initial=1))
        self.slots = 1 << (max(most, 1) - 1).bit_length()

    def __len__(self) -> int:
        return len(self.texts)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows and their mask positions, 0 in unused slots."""
        x: dict[str, Any] = self.texts.pack(rows, length)
        row, place = np.nonzero(x["token_ids"] == self.mask_token_id)
        positions = np.zeros((len(rows), self.slots), np.int32)
        positions[row, number_in_row(row)] = place
        return (x | {"mask_positions": positions},)
