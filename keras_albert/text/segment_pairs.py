"""Consecutive segments, some in the wrong order, with masked tokens."""

import numpy as np

from keras_albert.text.batch_seeds import BatchSeeds
from keras_albert.text.packing import EncodedTexts
from keras_albert.text.whole_word_masking import WholeWordMasking
from keras_albert.types import Batch, FloatArray, Int64Array


class SegmentPairs:
    """Pairs that are swapped and masked anew each time; see `Examples`.

    Args:
        in_order: `EncodedTexts` of pairs, each second text following its first.
        swapped: `EncodedTexts` of the same, the second texts first.
        masking: `WholeWordMasking`.
        seeds: `BatchSeeds`.
        sample_weight: float32 array `(rows,)`, or `None`. Defaults to `None`.
    """

    def __init__(
        self,
        in_order: EncodedTexts,
        swapped: EncodedTexts,
        masking: WholeWordMasking,
        seeds: BatchSeeds,
        sample_weight: FloatArray | None = None,
    ) -> None:
        self.in_order = in_order
        self.swapped = swapped
        # Truncation leaves as many tokens of a pair in either order.
        self.lengths = in_order.lengths
        self.masking = masking
        self.seeds = seeds
        self.sample_weight = sample_weight

    def __len__(self) -> int:
        return len(self.in_order)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Swap half of some rows, pack and mask them.

        Args:
            rows: See `Examples`.
            length: See `Examples`.

        Returns:
            The model's inputs, and for each of its two outputs the targets (of the
            order 1 where it is wrong) and their weights.
        """
        generator = self.seeds.generator(rows)
        swap = generator.random(len(rows)) < 0.5
        straight = self.in_order.pack(rows, length)
        turned = self.swapped.pack(rows, length)
        x = {
            name: np.where(swap[:, None], turned[name], straight[name])
            for name in straight
        }
        masked = self.masking(x["token_ids"], generator)
        x |= {"token_ids": masked.token_ids, "mask_positions": masked.positions}
        y = {"masked_lm": masked.labels, "sentence_order": swap.astype(np.int32)}
        weight = np.ones(len(rows), np.float32)
        if self.sample_weight is not None:
            weight = self.sample_weight[rows]
        weights = {
            "masked_lm": masked.weights * weight[:, None],
            "sentence_order": weight,
        }
        return x, y, weights
