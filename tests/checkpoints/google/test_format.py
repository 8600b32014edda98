"""Checkpoints of google-research/albert: exact names, reading and writing."""

import json
import os

import numpy as np
import pytest

from keras_albert import AlbertBackbone
from keras_albert.checkpoints import export_checkpoint
from keras_albert.presets.checkpoint import open_checkpoint
from tests.foreign_models import TINY, ragged_inputs, transformers_model
from tests.google_checkpoints import google_tensors, write_config, write_tf1

pytest.importorskip("tensorflow")

INPUTS = ragged_inputs()
# The reference's "gelu" is transformers' "gelu_new".
TANH = {"activation": "gelu_new"}


def _write(directory, class_name, **arguments):
    model = transformers_model(class_name, **(TANH | arguments))
    tensors = google_tensors(model)
    write_config(directory, model)
    write_tf1(directory / "model.ckpt-best", tensors)
    return model, tensors


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A pretraining checkpoint, which tests copy."""
    directory = tmp_path_factory.mktemp("google")
    arguments = {"num_groups": 2, "num_inner_repetitions": 2}
    return (directory, *_write(directory, "AlbertForPreTraining", **arguments))


def _names(prefix):
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(prefix))
    return {
        name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()
    }


def _assert_same(found, expected):
    np.testing.assert_equal(found, expected)


def test_what_is_written_has_the_same_names_and_numbers(original, tmp_path):
    directory, _, tensors = original
    backbone = AlbertBackbone.from_preset(directory)
    assert open_checkpoint(directory).format.name == "google-research/albert"
    assert backbone.pretrained
    export_checkpoint(backbone, tmp_path / "theirs", "google")
    written = _names(tmp_path / "theirs" / "model.ckpt-best")
    expected = {name: tensors[name] for name in tensors if name.startswith("bert/")}
    _assert_same(written, expected)
    assert {path.name for path in (tmp_path / "theirs").iterdir()} == {
        "albert_config.json",
        "checkpoint",
        "model.ckpt-best.data-00000-of-00001",
        "model.ckpt-best.index",
    }
    config, ours = (
        json.loads((place / "albert_config.json").read_text())
        for place in (directory, tmp_path / "theirs")
    )
    # Keys that the library does not read.
    del config["net_structure_type"], config["gap_size"]
    assert config.items() <= ours.items()


def test_a_module_of_tf_hub_is_read(original, tiny_proto, tmp_path):
    directory, model, tensors = original
    (tmp_path / "assets").mkdir()
    (tmp_path / "variables").mkdir()
    write_config(tmp_path / "assets", model)
    (tmp_path / "assets" / "30k-clean.model").write_bytes(tiny_proto)
    write_tf1(tmp_path / "variables" / "variables", tensors, scope="module/")
    backbone = AlbertBackbone.from_preset(tmp_path)
    expected = AlbertBackbone.from_preset(directory)
    np.testing.assert_equal(backbone.get_weights(), expected.get_weights())
    assert open_checkpoint(tmp_path).read_vocabulary() == tiny_proto


def test_the_best_checkpoint_comes_first_and_else_the_last(original, tmp_path):
    _, model, tensors = original
    write_config(tmp_path, model)
    marked = "bert/pooler/dense/bias"
    for number, step in enumerate(("9", "1000", "best")):
        changed = tensors | {marked: np.full(16, float(number), "f")}
        write_tf1(tmp_path / f"model.ckpt-{step}", changed, with_state=False)
        bias = np.asarray(AlbertBackbone.from_preset(tmp_path).pooler.bias)
        np.testing.assert_array_equal(bias, number)


def test_embeddings_as_wide_as_the_encoder_are_not_projected(tmp_path):
    wide = TINY | {"embedding_dim": 16, "num_layers": 1}
    backbone = AlbertBackbone(**wide)
    export_checkpoint(backbone, tmp_path / "theirs", "google")
    written = _names(tmp_path / "theirs" / "model.ckpt-best")
    assert not [name for name in written if "embedding_hidden_mapping_in" in name]
    reloaded = AlbertBackbone.from_preset(tmp_path / "theirs")
    assert reloaded.embedding.projection is None
    # From transformers, which always projects, back to a format that does not.
    backbone.export_to_transformers(tmp_path / "hf")
    projecting = AlbertBackbone.from_preset(tmp_path / "hf")
    export_checkpoint(projecting, tmp_path / "again", "google")
    assert _names(tmp_path / "again" / "model.ckpt-best").keys() == written.keys()
    projecting.embedding.projection.bias.assign(np.ones(16))
    with pytest.raises(ValueError, match="and this model does"):
        export_checkpoint(projecting, tmp_path / "no", "google")
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"activation": "gelu"}, "no name for activation='gelu'.*gelu_approximate"),
        ({"layer_norm_epsilon": 1e-5}, "layer_norm_epsilon=1e-05"),
        ({"num_layers": 22, "num_groups": 22}, "group of layer 15 to 14, here 15"),
    ],
)
def test_what_theirs_cannot_compute_is_refused(arguments, message, tmp_path):
    backbone = AlbertBackbone(**(TINY | {"num_layers": 1} | arguments))
    with pytest.raises(ValueError, match=message):
        export_checkpoint(backbone, tmp_path / "theirs", "google")
    assert not list(tmp_path.iterdir())


def _data(directory):
    return next(directory.glob("*.data-*"))


DAMAGED = r"model\.ckpt-best\.index.* is damaged.*and `model"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: _data(d).unlink(), DAMAGED),
        (lambda d: os.truncate(_data(d), 100), DAMAGED),
        (lambda d: os.truncate(d / "model.ckpt-best.index", 400), DAMAGED),
        (lambda d: _data(d).write_bytes(bytes(_data(d).stat().st_size)), DAMAGED),
        # Configs that contradict the weights.
        ({"vocab_size": 59}, r"word_embeddings is \(60, 8\) instead of \(59"),
        ({"num_hidden_groups": 1}, "unexpected: bert/encoder/transformer/group_1"),
        ({"inner_group_num": 4}, "missing: .*inner_group_3"),
        ({"hidden_act": "gelu_new"}, "`hidden_act`.*one of gelu, relu, tanh"),
    ],
)
def test_damaged_files_are_refused(original, tmp_path, spoil, message):
    directory, model, _ = original
    for path in directory.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    if isinstance(spoil, dict):
        write_config(tmp_path, model, **spoil)
    else:
        spoil(tmp_path)
    with pytest.raises(ValueError, match=message):
        AlbertBackbone.from_preset(tmp_path)


def test_heads_have_no_axis_of_their_own(original, tmp_path):
    """As in Model Garden's checkpoints, whose shapes are those of other variables."""
    _, model, tensors = original
    write_config(tmp_path, model)
    name = next(name for name in tensors if name.endswith("self/key/bias"))
    changed = tensors | {name: tensors[name][None]}
    write_tf1(tmp_path / "model.ckpt-best", changed, with_state=False)
    with pytest.raises(ValueError, match=r"key/bias is \(1, 16\) instead of \(16,"):
        AlbertBackbone.from_preset(tmp_path)


def test_files_that_are_missing_are_named(original, tmp_path):
    write_config(tmp_path, original[1])
    with pytest.raises(ValueError, match="contains no checkpoint"):
        AlbertBackbone.from_preset(tmp_path)
    with pytest.raises(ValueError, match=r"has no 30k-clean\.model"):
        open_checkpoint(tmp_path).read_vocabulary()


def test_without_tensorflow_the_message_says_so(original, monkeypatch):
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match='pip install "tensorflow"'):
        AlbertBackbone.from_preset(original[0])
