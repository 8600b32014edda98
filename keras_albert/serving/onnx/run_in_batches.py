"""Running a model on many rows in batches, in an ONNX graph."""

from typing import Any

import keras

from keras_albert.serving.onnx.builder import OnnxBuilder

# Windows per batch, so that a long document does not exhaust memory.
_ROWS_AT_ONCE = 64


def run_in_parts(graph: Any, ids: dict[str, Any]) -> Any:
    """Run the model of a task on any number of rows.

    Args:
        graph: An `OnnxTask`.
        ids: `token_ids`, `segment_ids` and `padding_mask`, int64 `(rows, length)`.

    Returns:
        The results of its `run`, for all rows.
    """
    op, builder = graph.op, graph.builder
    rows = builder.size(ids["token_ids"], 0)
    turns = op.Max(_divide_up(op, rows, _ROWS_AT_ONCE), 1)
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
