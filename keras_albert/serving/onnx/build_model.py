"""Building the bytes of an ONNX model; the part of the export that imports onnx."""

from typing import Any

import onnx
import onnx_ir

from keras_albert.serving.base import graph_class
from keras_albert.serving.onnx.builder import (
    IR_VERSION,
    TEXT_DOMAIN,
    OnnxBuilder,
)


def build_onnx_model(
    task: Any,
    inputs: str,
    pairs: bool,
    quantize: bool,
    metadata: dict[str, str],
    **options: Any,
) -> bytes:
    """Return a checked ONNX file; see `export_onnx` for the arguments."""
    builder = OnnxBuilder(quantize)
    graph = graph_class(task, "onnx")(task, builder, **options)
    if inputs == "text":
        builder.graph.opset_imports[TEXT_DOMAIN] = 1
        graph.from_texts(pairs)
    else:
        graph.from_tokens()
    for node in builder.graph.all_nodes():
        # Source locations of the builder's calls, and shapes that every runtime
        # infers, would take more space than the nodes.
        node.metadata_props.clear()
        for value in node.outputs:
            if not value.is_graph_output():
                value.type = value.shape = None
    model = onnx_ir.Model(
        builder.graph,
        ir_version=IR_VERSION,
        producer_name="keras_albert",
        metadata_props=metadata,
    )
    proto = onnx_ir.to_proto(model)
    onnx.checker.check_model(proto)
    return bytes(proto.SerializeToString())
