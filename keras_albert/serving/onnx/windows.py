"""Overlapping windows in an ONNX graph."""

from typing import Any

from keras_albert.serving.onnx.text import OnnxText, Pieces


class OnnxWindows:
    """`OverlappingWindows` in ONNX operations.

    Attributes:
        documents: The document of each window, int64 `(windows,)`.
        pieces: `Pieces` of the windows.

    Args:
        texts: The graph's tokenization.
        pieces: `Pieces` of the documents.
        size: int64 `(documents,)`. Tokens in a window.
        stride: int64 `(documents,)`. Distance in tokens between the starts of
            consecutive windows.
    """

    def __init__(self, texts: OnnxText, pieces: Pieces, size: Any, stride: Any) -> None:
        op = self.op = texts.op
        over = op.Sub(op.Add(op.Sub(pieces.lengths, size), stride), 1)
        counts = op.Add(op.Max(op.Div(over, stride), 0), 1)
        firsts = op.CumSum(counts, 0, exclusive=1)
        self.documents = texts.numbers(firsts, op.ReduceSum(counts, keepdims=1))
        values = (pieces.begins, pieces.lengths, size, stride, counts, firsts)
        base, whole, size, stride, counts, firsts = (
            op.Gather(value, self.documents) for value in values
        )
        number = op.Sub(texts.positions(self.documents), firsts)
        kept = op.Min(whole, size)
        last = op.Sub(whole, kept)

        def begin(number: Any) -> Any:
            return op.Add(base, op.Min(op.Mul(number, stride), last))

        def border(number: Any) -> Any:
            """Return the first token predicted by this window, not the previous one."""
            # The sum of two middles, each times two to stay an integer.
            both = op.Add(begin(number), begin(op.Sub(number, 1)))
            middle = op.Add(both, kept)
            return op.Div(op.Add(middle, 1), 2)

        begins, following = begin(number), op.Add(number, 1)
        self.pieces = Pieces(pieces.ids, begins, kept)
        is_first, is_last = op.Equal(number, 0), op.Equal(following, counts)
        self._owned_from = op.Where(is_first, begins, border(number))
        self._owned_to = op.Where(is_last, op.Add(begins, kept), border(following))

    def places(self, offsets: Any, length: Any) -> tuple[Any, Any]:
        """Return the token at each position of the windows' rows.

        Args:
            offsets: int64 `(windows,)` or a number. Where in its row a window begins.
            length: int64 `()`. The length of the rows.

        Returns:
            The token, int64 `(windows, length)`, and whether the window predicts it;
            0 where it does not.
        """
        op = self.op
        start, low, high = (
            op.Unsqueeze(value, [1])
            for value in (
                op.Sub(self.pieces.begins, offsets),
                self._owned_from,
                self._owned_to,
            )
        )
        place = op.Add(start, op.Range(0, length, 1))
        is_owned = op.And(op.GreaterOrEqual(place, low), op.Less(place, high))
        return op.Where(is_owned, place, 0), is_owned
