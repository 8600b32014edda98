"""Examples with masked tokens to predict."""

from typing import Any

import numpy as np

from keras_albert.text.masked_lm.batch_seeds import Seeds, join_parts
from keras_albert.text.masked_lm.whole_word_masking import (
    WholeWordMasking,
    number_in_row,
)
from keras_albert.text.packing.pack import EncodedTexts
from keras_albert.types import Batch, FloatArray, Int64Array


class MaskedTexts:
    """Texts that are masked when they are packed; see `Examples`.

    Args:
        texts: `EncodedTexts`.
        masking: `WholeWordMasking`.
        seeds: `Seeds`.
        sample_weight: float32 array `(rows,)`, or `None`. Defaults to `None`.
    """

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
        """Pack and mask some rows.

        Args:
            rows: See `Examples`.
            length: See `Examples`.

        Returns:
            The model's inputs, the original ids at `mask_positions`, and their
            weights.
        """
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


class WrittenMasks:
    """Texts that contain mask tokens to fill; see `Examples`.

    Args:
        texts: `EncodedTexts`.
        mask_token_id: int.
    """

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
        """Pack some rows, and find their mask tokens.

        Args:
            rows: See `Examples`.
            length: See `Examples`.

        Returns:
            The model's inputs; `mask_positions` is 0 in unused slots.
        """
        x: dict[str, Any] = self.texts.pack(rows, length)
        row, place = np.nonzero(x["token_ids"] == self.mask_token_id)
        positions = np.zeros((len(rows), self.slots), np.int32)
        positions[row, number_in_row(row)] = place
        return (x | {"mask_positions": positions},)
