"""Texts of any length, cut into windows."""

import numpy as np
import numpy.typing as npt

from keras_albert.text.packing.pack import EncodedTexts, SpecialIds
from keras_albert.text.packing.windows import OverlappingWindows, window_stride
from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.types import Batch, FloatArray, Int64Array


class TextWindows:
    """Tokenized texts, cut into windows if they are too long; see `Examples`.

    A row is `[CLS] window [SEP]`. `stride` is the distance of their starts, half a
    window by default.
    """

    def __init__(
        self,
        texts: TokenRows,
        special: SpecialIds,
        max_length: int,
        stride: int | None = None,
    ) -> None:
        room = max_length - 2
        windows = OverlappingWindows(texts.lengths, room, window_stride(stride, room))
        tokens = windows.tokens
        ids = TokenRows(texts.values[tokens.values], tokens.lengths)
        self._rows = EncodedTexts((ids,), special, max_length)
        self.lengths = self._rows.lengths
        self._texts = windows.documents
        # How many windows each text has.
        self.counts: Int64Array = np.bincount(self._texts, minlength=len(texts))
        # The only window of an empty text owns no token, but has a weight too.
        owned = np.maximum(1, windows.owned_counts)
        self._shares = owned / np.bincount(self._texts, owned)[self._texts]

    def __len__(self) -> int:
        return len(self._rows)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows; see `Examples`."""
        return (self._rows.pack(rows, length),)

    def mean(self, outputs: npt.NDArray[np.floating]) -> FloatArray:
        """Return the means over each text's windows, float32 `(texts, width)`.

        Windows are weighted by the tokens that they own, so that no token counts twice.
        """
        sums = np.zeros((len(self.counts), outputs.shape[1]))
        np.add.at(sums, self._texts, outputs * self._shares[:, None])
        return sums.astype(np.float32)
