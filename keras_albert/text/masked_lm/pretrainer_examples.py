"""Examples for pretraining: pairs of segments, half of them changed, with masks."""

from typing import NamedTuple

import numpy as np

from keras_albert.text.masked_lm.batch_seeds import Seeds, join_parts
from keras_albert.text.masked_lm.whole_word_masking import WholeWordMasking
from keras_albert.text.packing.pack import EncodedTexts
from keras_albert.types import Batch, FloatArray, Int64Array, IntArray


class MaskedPairs(NamedTuple):
    """A batch of masked pairs, some of them changed.

    Args:
        x: dict of int32 arrays. The model's inputs.
        labels: int32 array `(rows, slots)`. The original ids at `mask_positions`.
        weights: float32 array `(rows, slots)`. 1, or 0 in unused slots.
        changed: int32 array `(rows,)`. 1 for a changed pair.
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

    Args:
        pairs: `EncodedTexts` of pairs.
        changed_pairs: `EncodedTexts` of the same pairs, changed: swapped, or with
            other second texts.
        masking: `WholeWordMasking`.
        generator: `np.random.Generator`.
        rows: int64 array `(batch,)`. Which pairs, in which order.
        length: int. The length to pad to.

    Returns:
        The batch.
    """
    changed = generator.random(len(rows)) < 0.5
    x: dict[str, IntArray] = {}
    for texts, here in ((pairs, ~changed), (changed_pairs, changed)):
        for name, packed in texts.pack(rows[here], length).items():
            x.setdefault(name, np.empty((len(rows), length), np.int32))[here] = packed
    masked = masking(x["token_ids"], generator)
    x |= {"token_ids": masked.token_ids, "mask_positions": masked.positions}
    return MaskedPairs(x, masked.labels, masked.weights, changed.astype(np.int32))


class SegmentPairs:
    """Pairs that are swapped and masked when they are packed; see `Examples`.

    Args:
        in_order: `EncodedTexts` of pairs of consecutive texts.
        swapped: `EncodedTexts` of the same pairs, with the second texts first.
        masking: `WholeWordMasking`.
        seeds: `Seeds`.
        sample_weight: float32 array `(rows,)`, or `None`. Defaults to `None`.
    """

    def __init__(
        self,
        in_order: EncodedTexts,
        swapped: EncodedTexts,
        masking: WholeWordMasking,
        seeds: Seeds,
        sample_weight: FloatArray | None = None,
    ) -> None:
        self.in_order = in_order
        self.swapped = swapped
        # After truncation a pair has the same length in either order.
        self.lengths = in_order.lengths
        self.masking = masking
        self.seeds = seeds
        self.sample_weight = sample_weight

    def __len__(self) -> int:
        return len(self.in_order)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows, each swapped with probability 0.5, and mask them.

        Args:
            rows: See `Examples`.
            length: See `Examples`.

        Returns:
            The model's inputs, and the targets and weights of its two outputs; the
            target of `sentence_order` is 1 for a swapped pair.
        """
        parts = self.seeds.parts(rows)
        return join_parts([self._draw(part, length, rng) for part, rng in parts])

    def _draw(self, rows: Int64Array, length: int, rng: np.random.Generator) -> Batch:
        drawn = draw_pairs(self.in_order, self.swapped, self.masking, rng, rows, length)
        y = {"masked_lm": drawn.labels, "sentence_order": drawn.changed}
        weight = np.ones(len(rows), np.float32)
        if self.sample_weight is not None:
            weight = self.sample_weight[rows]
        weights = {
            "masked_lm": drawn.weights * weight[:, None],
            "sentence_order": weight,
        }
        return drawn.x, y, weights
