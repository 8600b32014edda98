"""Checkpoints of TensorFlow Model Garden's encoders, named as its code does."""

import json
import re

import numpy as np
import pytest

from keras_albert import AlbertBackbone
from keras_albert.checkpoints.convert import class_of
from keras_albert.presets.checkpoint import open_checkpoint
from tests.foreign_models import assert_computes_as, save_transformers
from tests.google_checkpoints import write_config
from tests.one_backend import on_one_backend_except

pytestmark = on_one_backend_except("test_an_encoder_computes_what_transformers_does")

tf = pytest.importorskip("tensorflow")

# The names of variables in `networks.AlbertEncoder`, `networks.BertEncoder` and
# `layers.MaskedLM` of tf-models-official 2.20, by parts of transformers' names.
VARIABLES = (
    (r"(albert|bert)\.", ""),
    (r"cls\.predictions|^predictions", "bert/cls/predictions"),
    (r"bert/cls/predictions\.transform", "bert/cls/predictions"),
    (r"predictions\.bias", "predictions/output_bias/bias"),
    (r"predictions\.(dense|LayerNorm)", r"predictions/transform/\1"),
    (r"embeddings\.LayerNorm", "embeddings/layer_norm"),
    (r"embeddings\.word_embeddings\.weight", "word_embeddings/embeddings"),
    (r"embeddings\.position_embeddings\.weight", "position_embedding/embeddings"),
    (r"embeddings\.token_type_embeddings\.weight", "type_embeddings/embeddings"),
    (r"encoder\.embedding_hidden_mapping_in", "embedding_projection"),
    (r"encoder\.albert_layer_groups\.0\.albert_layers\.0", "transformer"),
    (r"encoder\.layer\.(\d+)", r"transformer/layer_\1"),
    (r"attention\.(self\.)?(query|key|value)", r"self_attention/\2"),
    (r"attention\.(output\.)?dense", "self_attention/attention_output"),
    (r"attention\.(output\.)?LayerNorm", "self_attention_layer_norm"),
    (r"full_layer_layer_norm|output\.LayerNorm", "output_layer_norm"),
    (r"ffn\.|intermediate\.dense\.", "intermediate/"),
    (r"ffn_output\.|output\.dense\.", "output/"),
    (r"pooler(\.dense)?", "pooler_transform"),
    (r"\.", "/"),
)


def garden_variables(model):
    """The values of a model of transformers by the names of variables there."""
    heads = model.config.num_attention_heads
    found = {}
    for name, tensor in model.state_dict().items():
        if "decoder" in name:
            continue  # tied
        theirs, value = name, tensor.numpy()
        for pattern, replacement in VARIABLES:
            theirs = re.sub(pattern, replacement, theirs)
        *_, layer, kind = theirs.split("/")
        if "norm" in layer.lower():
            theirs = theirs.replace("weight", "gamma").replace("bias", "beta")
        elif kind == "weight":
            theirs, value = theirs.replace("weight", "kernel"), value.T
        if layer in ("query", "key", "value"):
            value = value.reshape(*value.shape[:-1], heads, -1)
        elif theirs.endswith("attention_output/kernel"):
            value = value.reshape(heads, -1, value.shape[-1])
        found[theirs] = np.array(value)
    return found


def _write(prefix, variables, scope="", **others):
    """Write what `tf.train.Checkpoint(encoder=...).save` writes."""
    encoder = tf.Module()
    encoder.all = [tf.Variable(x, name=scope + name) for name, x in variables.items()]
    tf.train.Checkpoint(encoder=encoder, **others).save(str(prefix))


@pytest.mark.parametrize(
    ("theirs", "scope"),
    [
        ("AlbertModel", ""),
        ("AlbertForMaskedLM", ""),
        ("BertModel", "bert_encoder_v2_1/"),
        ("BertForMaskedLM", ""),
    ],
)
def test_an_encoder_computes_what_transformers_does(theirs, scope, tmp_path):
    model = save_transformers(
        tmp_path / "hf", theirs, num_layers=2, hidden_act="gelu_new"
    )
    folder = tmp_path / "garden"
    folder.mkdir()
    variables = garden_variables(model)
    heads = {n: variables.pop(n) for n in list(variables) if n.startswith("bert/")}
    # Training state, and a head that has no equivalent.
    heads["bert/next_sentence/logits/kernel"] = np.ones((16, 2), "f")
    head = tf.Module()
    head.all = [tf.Variable(value, name=name) for name, value in heads.items()]
    step = tf.Variable(7, dtype=tf.int64, name="global_step")
    _write(folder / "bert_model.ckpt", variables, scope, head=head, step=step)
    if theirs.startswith("Albert"):
        write_config(folder, model)
    else:
        config = model.config.to_dict() | {"hidden_act": "gelu"}
        (folder / "bert_config.json").write_text(json.dumps(config))

    cls = class_of(open_checkpoint(folder))
    arguments = {} if cls is AlbertBackbone else {"preprocessor": None}
    ours = cls.from_preset(folder, **arguments)
    assert cls is class_of(open_checkpoint(tmp_path / "hf"))
    assert_computes_as(ours, tmp_path / "hf")


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("other/pooler_transform/bias", r"ckpt-1.*two variables '.*pooler_transform"),
        ("mixed/weight", r"unexpected: other/all/0"),
    ],
)
def test_what_an_encoder_does_not_have_is_refused(variable, message, tmp_path):
    model = save_transformers(tmp_path / "hf", "AlbertModel", num_layers=1)
    write_config(tmp_path, model)
    other = tf.Module()
    other.all = [tf.Variable(np.ones(16, "f"), name=variable)]
    _write(tmp_path / "ckpt", garden_variables(model), other=other)
    with pytest.raises(ValueError, match=message):
        AlbertBackbone.from_preset(tmp_path)
