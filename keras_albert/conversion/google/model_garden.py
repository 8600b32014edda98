"""TensorFlow Model Garden's names of weights, as those of google-research.

Its checkpoints have the names of attributes of Python objects, which depend on how an
encoder was built. The graph of the objects beside them also has the names of variables,
which do not. TF-Hub's SavedModels of ALBERT and BERT contain such a checkpoint.

Source: `tf1_bert_checkpoint_converter_lib.py` and
`tf2_albert_encoder_checkpoint_converter.py` of tf-models-official.
"""

import re
from collections.abc import Mapping

# The entry of a checkpoint with the graph of its objects.
OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"

Shape = tuple[int, ...]

_NAMES = {
    "word_embeddings/embeddings": "bert/embeddings/word_embeddings",
    "position_embedding/embeddings": "bert/embeddings/position_embeddings",
    "type_embeddings/embeddings": "bert/embeddings/token_type_embeddings",
    "embeddings/layer_norm": "bert/embeddings/LayerNorm",
    "embedding_projection": "bert/encoder/embedding_hidden_mapping_in",
    "pooler_transform": "bert/pooler/dense",
    "bert/cls/predictions/transform/dense": "cls/predictions/transform/dense",
    "bert/cls/predictions/transform/LayerNorm": "cls/predictions/transform/LayerNorm",
    "bert/cls/predictions/output_bias/bias": "cls/predictions/output_bias",
}
# In a layer: their name, that of ALBERT and that of BERT.
_IN_LAYER = {
    theirs: (albert, bert)
    for theirs, albert, bert in (
        ("self_attention/query", "attention_1/self/query", "attention/self/query"),
        ("self_attention/key", "attention_1/self/key", "attention/self/key"),
        ("self_attention/value", "attention_1/self/value", "attention/self/value"),
        (
            "self_attention/attention_output",
            "attention_1/output/dense",
            "attention/output/dense",
        ),
        ("self_attention_layer_norm", "LayerNorm", "attention/output/LayerNorm"),
        ("intermediate", "ffn_1/intermediate/dense", "intermediate/dense"),
        ("output", "ffn_1/intermediate/output/dense", "output/dense"),
        ("output_layer_norm", "LayerNorm_1", "output/LayerNorm"),
    )
}
_LAYER = re.compile(r"(?:.+/)?transformer/(layer_\d+/)?(.+)/(\w+)")


def google_name(variable: str) -> str | None:
    """Return google-research's name of a variable; `None` if it has none."""
    found = _LAYER.fullmatch(variable)
    if found and found[2] in _IN_LAYER:
        albert, bert = _IN_LAYER[found[2]]
        scope, part = f"bert/encoder/{found[1]}", bert
        if found[1] is None:
            scope, part = "bert/encoder/transformer/group_0/inner_group_0/", albert
        return f"{scope}{part}/{found[3]}"
    for theirs, ours in _NAMES.items():
        # A layer has a scope of its own, a functional model has none.
        if found := re.fullmatch(rf"(?:.+/)?{theirs}(/\w+)?", variable):
            return f"{ours}{found[1] or ''}"
    return None


def google_names(graph: bytes, shapes: Mapping[str, Shape]) -> dict[str, str]:
    """Return google-research's names of the weights in a checkpoint of objects."""
    from tensorflow.core.protobuf import (  # noqa: PLC0415  (slow to import)
        trackable_object_graph_pb2,
    )

    nodes = trackable_object_graph_pb2.TrackableObjectGraph.FromString(graph).nodes
    names: dict[str, str] = {}
    for node in nodes:
        for attribute in node.attributes:
            key, variable = attribute.checkpoint_key, attribute.full_name
            name = google_name(variable)
            is_state = not shapes.get(key) or ".OPTIMIZER_SLOT" in key
            if is_state or (name is None and variable.startswith("bert/")):
                continue
            if name in names.values():
                raise ValueError(f"it contains two variables {variable!r}")
            names[key] = name or key
    return names


def google_shape(name: str, shape: Shape) -> Shape:
    """Return a weight's shape in google-research, where heads share an axis."""
    if name.endswith("/kernel") and len(shape) == 3:
        first, heads, last = shape
        is_output = name.endswith("output/dense/kernel")
        return (first * heads, last) if is_output else (first, heads * last)
    if name.endswith("/bias") and len(shape) == 2:
        return (shape[0] * shape[1],)
    return shape
