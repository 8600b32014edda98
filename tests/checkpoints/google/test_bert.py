"""TF1 checkpoints of google-research/bert, and of the first albert_zh."""

import json

import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertPretrainer, AlbertTokenizer, tasks
from keras_albert.checkpoints import export_checkpoint
from keras_albert.checkpoints.convert import class_of, probe_batch
from keras_albert.presets.checkpoint import open_checkpoint
from tests.compiled import to_numpy
from tests.foreign_models import TINY, assert_computes_as, save_transformers
from tests.google_checkpoints import write_tf1

pytest.importorskip("tensorflow")

CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 16,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": 60,
}
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abc"]


def _tensors(model):
    """The tensors of a BERT of transformers, as google-research/bert names them."""
    tensors = {}
    for name, tensor in model.state_dict().items():
        if "decoder" in name:
            continue  # tied
        value = tensor.numpy()
        theirs = name.replace(".", "/").replace("layer/", "layer_")
        if "LayerNorm" in theirs:
            theirs = theirs.replace("weight", "gamma").replace("bias", "beta")
        elif "_embeddings/" in theirs:
            theirs = theirs.removesuffix("/weight")
        elif theirs.startswith("cls/seq") or theirs == "cls/predictions/bias":
            place, _, kind = theirs.rpartition("/")
            theirs = f"{place}/output_{'bias' if kind == 'bias' else 'weights'}"
        elif theirs.endswith("/weight"):
            theirs, value = theirs.removesuffix("weight") + "kernel", value.T
        tensors[theirs] = np.ascontiguousarray(value)
    return tensors


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A BERT, in the files of transformers and of google-research."""
    folder = tmp_path_factory.mktemp("bert")
    model = save_transformers(
        folder / "hf", "BertForPreTraining", num_layers=2, hidden_act="gelu_new"
    )
    google = folder / "google"
    google.mkdir()
    tensors = _tensors(model)
    write_tf1(google / "bert_model.ckpt", tensors, with_state=False)
    (google / "bert_config.json").write_text(json.dumps(CONFIG))
    (google / "vocab.txt").write_text("\n".join(PIECES))
    return folder, tensors


def test_a_bert_computes_what_transformers_does(original):
    folder, _ = original
    task = AlbertPretrainer.from_preset(folder / "google", preprocessor=None)
    assert_computes_as(task, folder / "hf")
    assert class_of(open_checkpoint(folder / "google")) is AlbertPretrainer
    assert AlbertTokenizer.from_preset(folder / "google")("a c").tolist() == [5, 7]


def test_a_bert_is_written_back(original, tmp_path):
    import tensorflow as tf

    folder, tensors = original
    task = AlbertPretrainer.from_preset(folder / "google", preprocessor=None)
    tokenizer = AlbertTokenizer.from_preset(folder / "google")
    export_checkpoint(task, tmp_path, "google", tokenizer)
    reader = tf.train.load_checkpoint(str(tmp_path / "bert_model.ckpt"))
    assert set(reader.get_variable_to_shape_map()) == set(tensors)
    for name, value in tensors.items():
        np.testing.assert_array_equal(reader.get_tensor(name), value, err_msg=name)
    config = json.loads((tmp_path / "bert_config.json").read_text())
    assert {key: config[key] for key in CONFIG} == CONFIG
    assert (tmp_path / "vocab.txt").read_text().split() == PIECES


def _zh_config(**changes):
    return json.dumps(CONFIG | {"embedding_size": 8, "ln_type": "postln"} | changes)


def test_the_first_albert_zh_is_a_product_of_embeddings(tmp_path):
    """Two layers that are one: the same as a BERT with two equal layers."""
    model = save_transformers(tmp_path / "hf", "BertModel", num_layers=1)
    tensors = {
        (f"bert/{name}").replace("layer_0", "layer_shared"): value
        for name, value in _tensors(model).items()
    }
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=s).astype("f") for s in ((60, 8), (8, 16)))
    tensors["bert/embeddings/word_embeddings"] = first
    tensors["bert/embeddings/word_embeddings_2"] = second
    zh = tmp_path / "zh"
    zh.mkdir()
    write_tf1(zh / "albert_model.ckpt", tensors, with_state=False)
    (zh / "albert_config_tiny.json").write_text(_zh_config())
    backbone = AlbertBackbone.from_preset(zh)
    assert (backbone.num_layers, backbone.num_groups) == (2, 1)
    table = to_numpy(backbone.token_embedding.embeddings)
    np.testing.assert_array_equal(table, first @ second)
    bert = AlbertBackbone.from_preset(tmp_path / "hf", activation="gelu_approximate")
    two = AlbertBackbone.from_config(
        bert.get_config() | {"num_layers": 2, "num_groups": 1}
    )
    two.set_weights(bert.get_weights())
    two.token_embedding.embeddings.assign(first @ second)
    inputs = probe_batch(two)
    for name, value in to_numpy(two(inputs)).items():
        np.testing.assert_allclose(to_numpy(backbone(inputs))[name], value, atol=1e-6)

    (zh / "albert_config_tiny.json").write_text(_zh_config(ln_type="preln"))
    with pytest.raises(ValueError, match=r"`ln_type`.*'postln'.*'preln'"):
        AlbertBackbone.from_preset(zh)


def test_a_google_albert_with_a_word_piece_vocabulary(tmp_path):
    """As google-research/albert's Chinese models, and the second albert_zh."""
    backbone = AlbertBackbone(**(TINY | {"num_layers": 1}))
    zh = tmp_path / "zh"
    export_checkpoint(backbone, zh, "google", AlbertTokenizer(PIECES))
    (zh / "vocab.txt").rename(zh / "vocab_chinese.txt")
    (zh / "albert_config.json").rename(zh / "albert_config_base.json")
    embedder = tasks.AlbertTextEmbedder.from_preset(zh)
    assert embedder.embed(["a c", "b"]).shape == (2, TINY["hidden_dim"])
    (zh / "vocab_chinese.txt").write_text("\n".join(PIECES + list("defg" * 20)))
    with pytest.raises(ValueError, match=r"has 'd' twice"):
        tasks.AlbertTextEmbedder.from_preset(zh)
