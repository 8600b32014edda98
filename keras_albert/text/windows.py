"""Overlapping windows of documents that are longer than a row."""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.text.packing import EncodedTexts, SpecialIds, TokenRows, ragged_range
from keras_albert.types import Batch, FloatArray, Int64Array


class OverlappingWindows:
    """The windows of concatenated documents, and the tokens that each of them owns."""

    # Windows start `stride` tokens apart, and the last one ends with its document. A
    # token is owned by the window with the nearest middle, or the first of two. `size`
    # and `stride` are one number or one for each document. Arrays are int64, or with
    # another `xp` than NumPy the tensors of that module.

    def __init__(self, lengths: Any, size: Any, stride: Any, xp: Any = np) -> None:
        # A maximum with 0 would be a `Relu` in TensorFlow's graph.
        counts = xp.maximum(1 - (size - lengths) // stride, 1)
        # The document of each window.
        self.documents = xp.repeat(xp.cumsum(xp.ones_like(lengths)) - 1, counts)
        kept = xp.minimum(lengths, size)
        base, first, last, kept, room, stride = (
            xp.take(each, self.documents)
            for each in (
                *(xp.cumsum(lengths) - lengths, xp.cumsum(counts) - counts),
                *(counts - 1, kept, lengths - kept, stride + 0 * lengths),
            )
        )
        number = xp.cumsum(xp.ones_like(self.documents)) - 1 - first

        def start(number: Any) -> Any:
            return base + xp.minimum(number * stride, room)

        def border(number: Any) -> Any:
            """Return the first token that is nearer than to the window before."""
            return (start(number) + start(number - 1) + kept + 1) // 2

        # The first tokens and those after the last, of the window and of what it owns.
        self.starts, self.ends = start(number), start(number) + kept
        self.owned_from = xp.where(number == 0, self.starts, border(number))
        self.owned_to = xp.where(number == last, self.ends, border(number + 1))

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def tokens(self) -> TokenRows:
        """The tokens of each window, as positions in the concatenated documents."""
        sizes = self.ends - self.starts
        at = ragged_range(self.starts, sizes).astype(np.int32)
        return TokenRows(at, sizes)

    @property
    def owned(self) -> npt.NDArray[np.bool_]:
        """Whether the window owns the token, for each of `tokens.values`."""
        at, sizes = self.tokens
        low, high = (np.repeat(x, sizes) for x in (self.owned_from, self.owned_to))
        return np.asarray((at >= low) & (at < high))


def window_stride(stride: int | None, size: int) -> int:
    """Check the stride; `None` is half a window."""
    if stride is None:
        return max(1, size // 2)
    if not 1 <= stride <= size:
        raise ValueError(
            "`stride`, the distance in tokens from window to window, must be from 1 to "
            f"{size}, the length of a window. Received: stride={stride}"
        )
    return stride


class TextWindows:
    """Rows `[CLS] window [SEP]` of texts, `stride` tokens apart; see `Examples`."""

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
        # The only window of an empty text owns no token, but has a weight.
        owned = np.maximum(1, windows.owned_to - windows.owned_from)
        self._shares = owned / np.bincount(self._texts, owned)[self._texts]

    def __len__(self) -> int:
        return len(self._rows)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows; see `Examples`."""
        return (self._rows.pack(rows, length),)

    def mean(self, outputs: npt.NDArray[np.floating]) -> FloatArray:
        """Return the means of each text's windows, weighted by the tokens they own."""
        sums = np.zeros((len(self.counts), outputs.shape[1]))
        np.add.at(sums, self._texts, outputs * self._shares[:, None])
        return sums.astype(np.float32)
