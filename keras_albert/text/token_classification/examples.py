"""Documents of words, packed as windows of pieces; predictions merged by word."""

from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.text.packing.pack import EncodedTexts, SpecialIds
from keras_albert.text.packing.windows import OverlappingWindows, window_stride
from keras_albert.text.token_classification.words import WordRow
from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.types import Batch, FloatArray, Int64Array, IntArray


class TaggedDocuments:
    """Documents of words, as rows of pieces, with optional tags; see `Examples`.

    A document that is too long is split into several rows, overlapping windows. Each
    piece is trained and predicted once, in the window in which it has the most context.
    `pieces` and `tags` are those of all documents' words, concatenated; a tag below 0
    is ignored.
    """

    def __init__(
        self,
        words: list[WordRow],
        pieces: TokenRows,
        special: SpecialIds,
        max_length: int,
        stride: int | None = None,
        label_all_pieces: bool = False,
        tags: IntArray | None = None,
        sample_weight: FloatArray | None = None,
    ) -> None:
        self.words = words
        self._counts = np.fromiter((len(row.starts) for row in words), np.int64)
        # Whether a word has pieces; U+200B, for example, has none.
        self._is_seen = pieces.lengths > 0
        word_of_piece = np.repeat(np.arange(len(pieces)), pieces.lengths)
        room = max_length - 2
        documents = np.repeat(np.arange(len(words)), self._counts)
        lengths = np.bincount(documents, pieces.lengths, minlength=len(words))
        windows = OverlappingWindows(
            lengths.astype(np.int64), room, window_stride(stride, room)
        )
        at = windows.tokens.values
        ids = TokenRows(pieces.values[at], windows.tokens.lengths)
        self._texts = EncodedTexts((ids,), special, max_length)
        self.lengths = self._texts.lengths
        self._word = word_of_piece[at]
        # The pieces whose tag is trained and predicted.
        self._answers = windows.owned
        if not label_all_pieces:
            is_first = np.zeros(len(pieces.values), bool)
            is_first[pieces.starts[self._is_seen]] = True
            self._answers = self._answers & is_first[at]
        self._places = TokenRows(np.arange(len(at), dtype=np.int32), ids.lengths)
        self._targets = None
        if tags is not None:
            learned = tags[self._word]
            counts = self._answers & (learned >= 0)
            weights = counts.astype(np.float32)
            if sample_weight is not None:
                weights *= sample_weight[self._word]
            self._targets = np.where(counts, learned, 0).astype(np.int32), weights

    def __len__(self) -> int:
        return len(self._texts)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows; see `Examples`."""
        x = self._texts.pack(rows, length)
        if self._targets is None:
            return (x,)
        # After `[CLS]`.
        inside = np.zeros((len(rows), length), bool)
        inside[:, 1:] = np.arange(length - 1) < self._places.lengths[rows][:, None]
        places = self._places.take(rows).values
        targets = []
        for values in self._targets:
            target = np.zeros((len(rows), length), values.dtype)
            target[inside] = values[places]
            targets.append(target)
        return x, *targets

    def merge(self, outputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Merge the outputs of rows into outputs of words.

        A word has the mean over its tagged pieces, or zeros without pieces.
        """
        sizes = self._places.lengths
        row = np.repeat(np.arange(len(sizes)), sizes)
        column = 1 + self._places.values - np.repeat(self._places.starts, sizes)
        word = self._word[self._answers]
        answers = outputs[row[self._answers], column[self._answers]]
        merged = np.zeros((len(self._is_seen), *outputs.shape[2:]), outputs.dtype)
        np.add.at(merged, word, answers)
        shares = np.maximum(1, np.bincount(word, minlength=len(merged)))
        merged /= shares.reshape(-1, *[1] * (merged.ndim - 1)).astype(outputs.dtype)
        return self._by_document(merged)

    def seen_words(self) -> list[npt.NDArray[np.bool_]]:
        """Return which words have pieces."""
        return self._by_document(self._is_seen)

    def _by_document(self, values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        return np.split(values, np.cumsum(self._counts))[: len(self.words)]
