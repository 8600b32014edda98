"""Long documents as overlapping windows, and which of them answers for what."""

import numpy as np

from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.types import Int64Array


class OverlappingWindows:
    """Where the windows of documents lie, and what each of them owns.

    Windows begin `stride` tokens apart. The last one of a document ends with it, and
    is as long as the others unless it is the only one. A token is owned by the window
    in which it has most context: whose middle is nearest, the first of two. So each
    token is owned once.

    Args:
        lengths: int64 array `(documents,)`. Tokens of each document, which lie end to
            end.
        size: int, or int64 array `(documents,)`. Tokens in a window.
        stride: int, or int64 array `(documents,)`. Tokens from the beginning of a
            window to that of the next, at most `size`.

    Example:
        >>> windows = OverlappingWindows(np.array([7, 2]), size=4, stride=2)
        >>> windows.tokens.to_lists()
        [[0, 1, 2, 3], [2, 3, 4, 5], [3, 4, 5, 6], [7, 8]]
        >>> windows.owned.astype(int).tolist()
        [1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 1, 1]
        >>> windows.documents.tolist()
        [0, 0, 0, 1]
    """

    def __init__(
        self, lengths: Int64Array, size: int | Int64Array, stride: int | Int64Array
    ) -> None:
        counts = 1 + np.maximum(0, -(-(lengths - size) // stride))
        # Which document each window is cut from.
        self.documents = np.repeat(np.arange(len(lengths)), counts)
        whole = lengths[self.documents]
        size = np.broadcast_to(size, lengths.shape)[self.documents]
        stride = np.broadcast_to(stride, lengths.shape)[self.documents]
        number = np.arange(len(self.documents))
        number -= np.repeat(np.cumsum(counts) - counts, counts)
        inside = np.minimum(number * stride, np.maximum(0, whole - size))
        self._sizes = np.minimum(whole, size)
        begins = inside + (np.cumsum(lengths) - lengths)[self.documents]
        place = np.arange(self._sizes.sum())
        place -= np.repeat(np.cumsum(self._sizes) - self._sizes, self._sizes)
        # The tokens of each window, by their place among those of all documents.
        self.tokens = TokenRows(
            (place + np.repeat(begins, self._sizes)).astype(np.int32), self._sizes
        )
        # Middles are taken twice, and borders four times, to stay whole.
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
        # How many tokens each window owns: of none it is one of an empty document.
        self.owned_counts: Int64Array = high - low

    def __len__(self) -> int:
        return len(self.documents)


def window_stride(stride: int | None, size: int) -> int:
    """Check how far windows are apart, or choose it.

    Args:
        stride: int or `None`. Tokens from the beginning of a window to that of the
            next; `None` for half a window.
        size: int. Tokens in a window.

    Returns:
        The tokens.

    Raises:
        ValueError: If windows would not move, or leave out tokens.

    Example:
        >>> window_stride(None, 510), window_stride(128, 510)
        (255, 128)
    """
    if stride is None:
        return max(1, size // 2)
    if not 1 <= stride <= size:
        msg = (
            "`stride` is how many tokens a window begins behind the one before, from 1 "
            f"to {size}, which a window holds. Received: stride={stride}"
        )
        raise ValueError(msg)
    return stride
