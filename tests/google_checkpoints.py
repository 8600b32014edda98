"""Checkpoints as google-research/albert writes them, of transformers' tensors."""

import json
import re

import numpy as np

# The names of that code, by transformers'; with T a kernel is (in, out) here.
_NAMES = (
    (r"albert\.embeddings\.word_embeddings\.weight", "bert/embeddings/word_embeddings"),
    (
        r"albert\.embeddings\.position_embeddings\.weight",
        "bert/embeddings/position_embeddings",
    ),
    (
        r"albert\.embeddings\.token_type_embeddings\.weight",
        "bert/embeddings/token_type_embeddings",
    ),
    (r"albert\.embeddings\.LayerNorm\.weight", "bert/embeddings/LayerNorm/gamma"),
    (r"albert\.embeddings\.LayerNorm\.bias", "bert/embeddings/LayerNorm/beta"),
    (
        r"albert\.encoder\.embedding_hidden_mapping_in\.weight T",
        "bert/encoder/embedding_hidden_mapping_in/kernel",
    ),
    (
        r"albert\.encoder\.embedding_hidden_mapping_in\.bias",
        "bert/encoder/embedding_hidden_mapping_in/bias",
    ),
    (r"albert\.pooler\.weight T", "bert/pooler/dense/kernel"),
    (r"albert\.pooler\.bias", "bert/pooler/dense/bias"),
    (r"predictions\.dense\.weight T", "cls/predictions/transform/dense/kernel"),
    (r"predictions\.dense\.bias", "cls/predictions/transform/dense/bias"),
    (r"predictions\.LayerNorm\.weight", "cls/predictions/transform/LayerNorm/gamma"),
    (r"predictions\.LayerNorm\.bias", "cls/predictions/transform/LayerNorm/beta"),
    (r"predictions\.bias", "cls/predictions/output_bias"),
    (r"sop_classifier\.classifier\.weight", "cls/seq_relationship/output_weights"),
    (r"sop_classifier\.classifier\.bias", "cls/seq_relationship/output_bias"),
    (r"classifier\.weight", "output_weights"),
    (r"classifier\.bias", "output_bias"),
    (r"qa_outputs\.weight", "cls/squad/output_weights"),
    (r"qa_outputs\.bias", "cls/squad/output_bias"),
)
_BLOCK = r"albert\.encoder\.albert_layer_groups\.(\d+)\.albert_layers\.(\d+)\.(.*)"
_IN_BLOCK = {
    "attention.query.weight": ("attention_1/self/query/kernel", "T"),
    "attention.query.bias": ("attention_1/self/query/bias", ""),
    "attention.key.weight": ("attention_1/self/key/kernel", "T"),
    "attention.key.bias": ("attention_1/self/key/bias", ""),
    "attention.value.weight": ("attention_1/self/value/kernel", "T"),
    "attention.value.bias": ("attention_1/self/value/bias", ""),
    "attention.dense.weight": ("attention_1/output/dense/kernel", "T"),
    "attention.dense.bias": ("attention_1/output/dense/bias", ""),
    "attention.LayerNorm.weight": ("LayerNorm/gamma", ""),
    "attention.LayerNorm.bias": ("LayerNorm/beta", ""),
    "ffn.weight": ("ffn_1/intermediate/dense/kernel", "T"),
    "ffn.bias": ("ffn_1/intermediate/dense/bias", ""),
    "ffn_output.weight": ("ffn_1/intermediate/output/dense/kernel", "T"),
    "ffn_output.bias": ("ffn_1/intermediate/output/dense/bias", ""),
    "full_layer_layer_norm.weight": ("LayerNorm_1/gamma", ""),
    "full_layer_layer_norm.bias": ("LayerNorm_1/beta", ""),
}


def _translate(name):
    """Their name, and whether to transpose."""
    if found := re.fullmatch(_BLOCK, name):
        group, inner, rest = found.groups()
        theirs, turned = _IN_BLOCK[rest]
        block = f"bert/encoder/transformer/group_{group}/inner_group_{inner}"
        return f"{block}/{theirs}", turned == "T"
    for pattern, theirs in _NAMES:
        if re.fullmatch(pattern.removesuffix(" T"), name):
            return theirs, pattern.endswith(" T")
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
        "attention_probs_dropout_prob",
        "embedding_size",
        "hidden_dropout_prob",
        "hidden_size",
        "initializer_range",
        "inner_group_num",
        "intermediate_size",
        "max_position_embeddings",
        "num_attention_heads",
        "num_hidden_groups",
        "num_hidden_layers",
        "type_vocab_size",
        "vocab_size",
    )
    config = {key: getattr(model.config, key) for key in keys}
    config |= {"hidden_act": "gelu", "net_structure_type": 0, "gap_size": 0}
    (directory / "albert_config.json").write_text(json.dumps(config | changes))
