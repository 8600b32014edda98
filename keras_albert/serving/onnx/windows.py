"""Overlapping windows in an ONNX graph."""

from typing import Any

import keras

from keras_albert.serving.graph_tables import WINDOWS_AT_ONCE
from keras_albert.serving.onnx.builder import OnnxBuilder
from keras_albert.serving.onnx.text import OnnxText, Pieces


class OnnxWindows:
    """`OverlappingWindows` in ONNX operations.

    Attributes:
        documents: The document of each window, int64 `(windows,)`.
        pieces: `Pieces` of the windows.
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
        """Return the token at each position `(windows, length)`, 0 if not predicted."""
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


def run_windows(graph: Any, ids: dict[str, Any]) -> Any:
    """Return the results of a task's `run` for many rows, computed in batches."""
    op, builder = graph.op, graph.builder
    rows = builder.size(ids["token_ids"], 0)
    turns = op.Max(_divide_up(op, rows, WINDOWS_AT_ONCE), 1)
    at_once = _divide_up(op, rows, turns)
    count = op.Mul(turns, at_once)
    # The last row is repeated to fill the last batch.
    row = op.Min(op.Range(0, op.Squeeze(count), 1), op.Sub(rows, 1))
    shape = builder.integers(turns, at_once, builder.size(ids["token_ids"], 1))
    parts = [
        op.Reshape(op.Gather(values, row), shape, allowzero=1)
        for values in ids.values()
    ]

    body = OnnxBuilder(builder.quantize, around=builder)
    part = {name: body.input(name, "int64", "rows", "length") for name in ids}
    outputs = type(graph)(graph.task, body).run(part)
    values = keras.tree.flatten(outputs)
    for number, value in enumerate(values):
        body.output(f"output_{number}", value)
    found = op.Scan(
        *parts, body=body.graph, num_scan_inputs=len(parts), _outputs=len(values)
    )

    def join(value: Any) -> Any:
        shape = op.Concat(count, op.Shape(value, start=2), axis=0)
        return op.Slice(op.Reshape(value, shape, allowzero=1), [0], rows)

    found = [found] if len(values) == 1 else found
    return keras.tree.pack_sequence_as(outputs, [join(value) for value in found])


def _divide_up(op: Any, number: Any, by: Any) -> Any:
    """Divide integers and round up."""
    return op.Div(op.Sub(op.Add(number, by), 1), by)
