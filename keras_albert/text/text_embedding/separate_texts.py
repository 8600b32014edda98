"""Pairs of texts, packed as separate rows."""

import numpy as np

from keras_albert.text.packing.pack import EncodedTexts
from keras_albert.types import Int64Array, IntArray


class SeparateTexts:
    """Examples of one or several texts, packed as separate rows.

    Args:
        columns: `EncodedTexts` of single texts, one per column, of equal length.

    Example:
        >>> from keras_albert.text import TokenRows
        >>> from keras_albert.text.packing.pack import SpecialIds
        >>> first, second = (
        ...     EncodedTexts((TokenRows.from_lists([ids]),), SpecialIds(2, 3, 0), 8)
        ...     for ids in ([7, 8], [9]))
        >>> pairs = SeparateTexts((first, second))
        >>> pairs.pack(np.array([0]), 4)["token_ids"].tolist()
        [[[2, 7, 8, 3], [2, 9, 3, 0]]]
    """

    def __init__(self, columns: tuple[EncodedTexts, ...]) -> None:
        self.columns = columns
        self.lengths: Int64Array = np.max([c.lengths for c in columns], axis=0)

    def __len__(self) -> int:
        return len(self.columns[0])

    def pack(self, indices: Int64Array, length: int) -> dict[str, IntArray]:
        """Pack some examples.

        Args:
            indices: int64 array `(batch,)`. Which examples, in which order.
            length: int. The length to pad to, at least that of the longest row.

        Returns:
            `token_ids`, `segment_ids` and `padding_mask`, int32 `(batch, length)`, or
            `(batch, texts, length)` if an example has several texts.
        """
        packed = [column.pack(indices, length) for column in self.columns]
        if len(packed) == 1:
            return packed[0]
        return {
            name: np.stack([texts[name] for texts in packed], axis=1)
            for name in packed[0]
        }
