"""Overlapping windows of long documents, and the tokens that each of them owns."""

import numpy as np

from keras_albert.text.tokenizer.token_rows import TokenRows, ragged_range
from keras_albert.types import Int64Array


class OverlappingWindows:
    """The windows of documents, and the tokens that each of them owns.

    Windows begin `stride` tokens apart. The last window of a document ends with the
    document, and is as long as the others unless it is the only one. Each token is
    owned by one window, that in which it has the most context: the window with the
    nearest middle, or the first of two that are equally near. Documents are
    concatenated; `size` and `stride` are one number or one for each document.
    """

    def __init__(
        self, lengths: Int64Array, size: int | Int64Array, stride: int | Int64Array
    ) -> None:
        counts = 1 + np.maximum(0, -(-(lengths - size) // stride))
        # The document of each window.
        self.documents = np.repeat(np.arange(len(lengths)), counts)
        whole = lengths[self.documents]
        size = np.broadcast_to(size, lengths.shape)[self.documents]
        stride = np.broadcast_to(stride, lengths.shape)[self.documents]
        number = ragged_range(np.zeros_like(counts), counts)
        inside = np.minimum(number * stride, np.maximum(0, whole - size))
        self._sizes = np.minimum(whole, size)
        begins = inside + (np.cumsum(lengths) - lengths)[self.documents]
        # The tokens of each window, as positions in the concatenated documents.
        self.tokens = TokenRows(
            ragged_range(begins, self._sizes).astype(np.int32), self._sizes
        )
        # Middles are doubled, and borders quadrupled, to remain integers.
        middles = 2 * begins + self._sizes
        same = self.documents[1:] == self.documents[:-1]
        borders = (middles[1:] + middles[:-1]) // 2
        low, high = begins.copy(), begins + self._sizes
        # The middle of token t is t + 1/2.
        low[1:][same] = (borders[same] + 1) // 2
        high[:-1][same] = low[1:][same]
        at = self.tokens.values
        # Whether the window owns the token, for each of `tokens.values`.
        self.owned = np.asarray(
            (at >= np.repeat(low, self._sizes)) & (at < np.repeat(high, self._sizes))
        )
        # The number of tokens that each window owns: 0 for an empty document.
        self.owned_counts: Int64Array = high - low

    def __len__(self) -> int:
        return len(self.documents)


def window_stride(stride: int | None, size: int) -> int:
    """Check the stride, or choose the default.

    `None` is half a window.
    """
    if stride is None:
        return max(1, size // 2)
    if not 1 <= stride <= size:
        msg = (
            "`stride` is the distance in tokens from window to window, from 1 to "
            f"{size}, the length of a window. Received: stride={stride}"
        )
        raise ValueError(msg)
    return stride
