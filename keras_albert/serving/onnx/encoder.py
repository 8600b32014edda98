"""ALBERT's backbone as an ONNX graph, with unrolled layers and shared weights."""

import math
from collections.abc import Callable
from typing import Any

import keras

from keras_albert.layers.run_layers import get_activation
from keras_albert.serving.onnx.builder import OnnxBuilder

# The attention bias of padding; finite, so that a row of padding only has no NaN.
_HIDDEN = -1e9


def encode(builder: OnnxBuilder, backbone: Any, ids: dict[str, Any]) -> Any:
    """Return the `sequence_output` of ids, which are integers `(rows, length)`."""
    x, bias = begin(builder, backbone, ids)
    for layer in range(backbone.num_layers):
        x = run_layer(builder, backbone, x, bias, layer)
    return x


def begin(builder: OnnxBuilder, backbone: Any, ids: dict[str, Any]) -> tuple[Any, Any]:
    """Return the first layer's input, and the bias of all, `(rows, 1, 1, length)`."""
    x = _embed(builder, backbone.embedding, ids)
    is_real = builder.cast(ids["padding_mask"], "bool")
    bias = builder.op.Where(is_real, 0.0, _HIDDEN)
    # For all heads and all queries.
    return x, builder.op.Unsqueeze(bias, [1, 2])


def run_layer(
    builder: OnnxBuilder, backbone: Any, x: Any, bias: Any, layer: Any
) -> Any:
    """Run a virtual layer: return its output for `begin`'s, or another layer's.

    `layer` is an int, or a scalar in the graph if there is one group.
    """
    encoder, activation = backbone.encoder, get_activation(backbone.activation)
    is_known = isinstance(layer, int)
    group = encoder.group_of(layer, backbone.num_layers) if is_known else 0
    for inner, block in enumerate(encoder.group_blocks(group)):
        own = None
        if encoder.adapters is not None and is_known:
            number = encoder.run_number(layer, inner, group, backbone.num_layers)
            own = _own_weights(builder, encoder, number)
        elif encoder.adapters is not None:
            number = builder.op.Mul(layer, encoder.num_inner_repetitions)
            own = _own_weights(builder, encoder, builder.op.Add(number, inner))
        x = _run_block(builder, block, x, bias, activation, own)
    return x


_Own = Callable[..., tuple[Any, ...]] | None


def _own_weights(builder: OnnxBuilder, encoder: Any, number: Any) -> _Own:
    """Return a function from the names of adapters to their values in a run."""
    variables = encoder.adapters.by_name()

    def read(layer: Any, *kinds: str) -> tuple[Any, ...]:
        stacked = (builder.weight(variables[f"{layer.name}_{kind}"]) for kind in kinds)
        return tuple(builder.op.Gather(each, number, axis=0) for each in stacked)

    return read


def _dense(builder: OnnxBuilder, layer: Any, x: Any, own: _Own) -> Any:
    output = builder.dense(layer, x)
    if own is None:
        return output
    a, b, bias = own(layer, "a", "b", "bias")
    product = builder.op.MatMul(builder.op.MatMul(x, a), b)
    return builder.op.Add(builder.op.Add(output, product), bias)


def _layer_norm(builder: OnnxBuilder, layer: Any, x: Any, own: _Own) -> Any:
    differences = () if own is None else own(layer, "gamma", "beta")
    return builder.layer_norm(layer, x, *differences)


def pool(builder: OnnxBuilder, backbone: Any, sequence: Any, padding_mask: Any) -> Any:
    """Run the pooler: return the `pooled_output` of a `sequence_output`."""
    if backbone.pooler_input == "cls":
        vector = builder.op.Gather(sequence, backbone.cls_token_index, axis=1)
    else:
        vector = masked_mean(builder, sequence, padding_mask)
    return builder.dense(backbone.pooler, vector)


def masked_mean(
    builder: OnnxBuilder, sequence: Any, padding_mask: Any, token_weights: Any = None
) -> Any:
    """Return the mean of each sequence, `(rows, width)`, as `MaskedPooling` does."""
    op = builder.op
    is_real = op.Unsqueeze(builder.cast(padding_mask, "bool"), [-1])
    weights = builder.cast(is_real, "float32")
    if token_weights is not None:
        weights = op.Mul(weights, op.Unsqueeze(token_weights, [-1]))
    total = op.Where(is_real, op.Mul(sequence, weights), 0.0)
    total = op.ReduceSum(total, [1], keepdims=0)
    count = op.ReduceSum(weights, [1], keepdims=0)
    return op.Div(total, op.Max(count, keras.config.epsilon()))


def _embed(builder: OnnxBuilder, layer: Any, ids: dict[str, Any]) -> Any:
    op = builder.op
    tokens = builder.embed(layer.token_embedding, ids["token_ids"])
    positions = builder.weight(layer.position_embedding.position_embeddings)
    # For a row that is too long, the lookup of positions fails in the runtime.
    length = op.Squeeze(builder.size(ids["token_ids"], 1))
    positions = op.Gather(positions, op.Range(0, length, 1))
    segment_ids = ids["segment_ids"]
    if layer.num_segments == 1:
        segment_ids = op.Sub(segment_ids, segment_ids)
    segments = builder.embed(layer.segment_embedding, segment_ids)
    x = op.Add(op.Add(tokens, positions), segments)
    x = builder.layer_norm(layer.layer_norm, x)
    return x if layer.projection is None else builder.dense(layer.projection, x)


def _run_block(
    builder: OnnxBuilder, block: Any, x: Any, bias: Any, activation: Any, own: _Own
) -> Any:
    attended = builder.op.Add(x, _attend(builder, block, x, bias, own))
    attended = _layer_norm(builder, block.attention_layer_norm, attended, own)
    inner = _dense(builder, block.feedforward_intermediate, attended, own)
    inner = builder.activate(activation, inner)
    inner = _dense(builder, block.feedforward_output, inner, own)
    inner = builder.op.Add(attended, inner)
    return _layer_norm(builder, block.feedforward_layer_norm, inner, own)


def _attend(builder: OnnxBuilder, block: Any, x: Any, bias: Any, own: _Own) -> Any:
    op = builder.op
    width = block.query.units
    head_dim = width // block.num_heads

    def split(layer: Any, *order: int) -> Any:
        heads = op.Reshape(
            _dense(builder, layer, x, own), [0, 0, block.num_heads, head_dim]
        )
        return op.Transpose(heads, perm=order)

    query, value = split(block.query, 0, 2, 1, 3), split(block.value, 0, 2, 1, 3)
    key = split(block.key, 0, 2, 3, 1)
    scores = op.MatMul(op.Mul(query, 1 / math.sqrt(head_dim)), key)
    mixed = op.MatMul(op.Softmax(op.Add(scores, bias), axis=-1), value)
    mixed = op.Reshape(op.Transpose(mixed, perm=[0, 2, 1, 3]), [0, 0, width])
    return _dense(builder, block.attention_output, mixed, own)
