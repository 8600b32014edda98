"""Checkpoints as google-research/albert writes them, of transformers' tensors."""

import json
import re

import numpy as np

# The names of that code, by transformers'; with T a kernel is (in, out) here.
_NAMES = (
    (r"albert\.embeddings\.(\w+_embeddings)\.weight", r"bert/embeddings/\1"),
    (r"albert\.embeddings\.LayerNorm\.weight", "bert/embeddings/LayerNorm/gamma"),
    (r"albert\.embeddings\.LayerNorm\.bias", "bert/embeddings/LayerNorm/beta"),
    (r"albert\.encoder\.(\w+_in)\.weight T", r"bert/encoder/\1/kernel"),
    (r"albert\.encoder\.(\w+_in)\.bias", r"bert/encoder/\1/bias"),
    (r"albert\.pooler\.weight T", "bert/pooler/dense/kernel"),
    (r"albert\.pooler\.bias", "bert/pooler/dense/bias"),
    (r"predictions\.dense\.weight T", "cls/predictions/transform/dense/kernel"),
    (r"predictions\.dense\.bias", "cls/predictions/transform/dense/bias"),
    (r"predictions\.LayerNorm\.weight", "cls/predictions/transform/LayerNorm/gamma"),
    (r"predictions\.LayerNorm\.bias", "cls/predictions/transform/LayerNorm/beta"),
    (r"predictions\.bias", "cls/predictions/output_bias"),
    (r"sop_classifier\.classifier\.(weight|bias)", r"cls/seq_relationship/output_\1"),
    (r"classifier\.(weight|bias)", r"output_\1"),
    (r"qa_outputs\.(weight|bias)", r"cls/squad/output_\1"),
)
_BLOCK = r"albert\.encoder\.albert_layer_groups\.(\d+)\.albert_layers\.(\d+)\.(.*)"
_IN_BLOCK = {
    "attention.query": "attention_1/self/query",
    "attention.key": "attention_1/self/key",
    "attention.value": "attention_1/self/value",
    "attention.dense": "attention_1/output/dense",
    "attention.LayerNorm": "LayerNorm",
    "ffn": "ffn_1/intermediate/dense",
    "ffn_output": "ffn_1/intermediate/output/dense",
    "full_layer_layer_norm": "LayerNorm_1",
}


def _translate(name):
    """Their name, and whether to transpose."""
    if found := re.fullmatch(_BLOCK, name):
        group, inner, rest = found.groups()
        layer, _, kind = rest.rpartition(".")
        names = ("gamma", "beta") if "norm" in layer.lower() else ("kernel", "bias")
        name = f"{_IN_BLOCK[layer]}/{names[kind == 'bias']}"
        block = f"bert/encoder/transformer/group_{group}/inner_group_{inner}"
        return f"{block}/{name}", name.endswith("kernel")
    for pattern, theirs in _NAMES:
        if found := re.fullmatch(pattern.removesuffix(" T"), name):
            name = re.sub("output_weight$", "output_weights", found.expand(theirs))
            return name, pattern.endswith(" T")
    raise KeyError(name)


def google_tensors(model):
    """The tensors of a model of transformers', under that code's names."""
    tensors = {}
    for name, tensor in model.state_dict().items():
        if name.startswith("predictions.decoder."):
            continue  # tied
        if name.startswith(("embeddings.", "encoder.", "pooler.")):
            name = f"albert.{name}"  # noqa: PLW2901  (a bare model)
        theirs, turned = _translate(name)
        value = tensor.numpy()
        tensors[theirs] = np.ascontiguousarray(value.T if turned else value)
    return tensors


def write_tf1(prefix, tensors, with_state=True, scope=""):
    """Write variables with TensorFlow 1's own saver, and what training leaves."""
    import tensorflow as tf

    v1 = tf.compat.v1
    if with_state:
        slots = {
            f"{name}/{slot}": np.zeros_like(tensors[name])
            for name in tensors
            for slot in ("adam_m", "adam_v")
        }
        tensors = tensors | slots | {"global_step": np.int64(125_000)}
    with tf.Graph().as_default(), v1.Session() as session:
        for name, value in tensors.items():
            v1.get_variable(scope + name, initializer=value)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(prefix), write_meta_graph=False)


def write_config(directory, model, **changes):
    """Write `albert_config.json`, where "gelu" is the tanh form."""
    keys = (
        *("attention_probs_dropout_prob", "embedding_size", "hidden_dropout_prob"),
        *("hidden_size", "initializer_range", "inner_group_num", "intermediate_size"),
        *("max_position_embeddings", "num_attention_heads", "num_hidden_groups"),
        *("num_hidden_layers", "type_vocab_size", "vocab_size"),
    )
    config = {key: getattr(model.config, key) for key in keys}
    config |= {"hidden_act": "gelu", "net_structure_type": 0, "gap_size": 0}
    (directory / "albert_config.json").write_text(json.dumps(config | changes))
