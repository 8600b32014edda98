"""TF-Hub's SavedModels of ALBERT and BERT: weights, sizes and vocabulary."""

import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertMaskedLM,
    AlbertTextEmbedder,
    AlbertTokenizer,
)
from keras_albert.checkpoints.convert import class_of, probe_batch
from keras_albert.presets.checkpoint import open_checkpoint
from tests.checkpoints.google.test_model_garden import garden_variables
from tests.compiled import to_numpy
from tests.foreign_models import assert_computes_as, save_transformers
from tests.one_backend import on_one_backend_except

pytestmark = on_one_backend_except("test_a_saved_model_computes_what_transformers_does")

tf = pytest.importorskip("tensorflow")

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcC"]


def _write(directory, variables, assets, with_layers=3, **attributes):
    """Write a SavedModel as `export_tfhub_lib.export_model` of Model Garden does."""
    model = tf.Module()
    model.all = [tf.Variable(value, name=name) for name, value in variables.items()]
    for name, value in attributes.items():
        setattr(model, name, value)
    model.assets = [tf.saved_model.Asset(str(path)) for path in assets]

    @tf.function(input_signature=[tf.TensorSpec((None, None), tf.int32)])
    def serve(input_word_ids):
        sequence = tf.zeros((tf.shape(input_word_ids)[0], 5, 16))
        names = [f"encoder_{n}" for n in range(with_layers)]
        outputs = dict.fromkeys((*names, "sequence_output"), sequence)
        return outputs | {"pooled_output": sequence[:, 0], "default": sequence[:, 0]}

    tf.saved_model.save(model, str(directory), {"serving_default": serve})


@pytest.fixture(scope="module", params=["AlbertModel", "BertForMaskedLM"])
def original(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hub")
    model = save_transformers(
        folder / "hf",
        request.param,
        num_layers=3,
        vocabulary_size=len(PIECES),
        hidden_act="gelu_new",
    )
    (folder / "vocab.txt").write_text("\n".join(PIECES))
    variables = garden_variables(model)
    if request.param.startswith("Bert"):
        # TF-Hub's have one, although no weights of it are in this class.
        variables["pooler_transform/kernel"] = np.eye(16, dtype="f")
        variables["pooler_transform/bias"] = np.zeros(16, "f")
    _write(
        folder / "saved",
        variables,
        [folder / "vocab.txt"],
        do_lower_case=tf.Variable(True, trainable=False),
    )
    return request.param, folder, variables


def test_a_saved_model_computes_what_transformers_does(original):
    theirs, folder, _ = original
    cls = AlbertBackbone if theirs == "AlbertModel" else AlbertMaskedLM
    assert class_of(open_checkpoint(folder / "saved")) is cls
    arguments = {} if cls is AlbertBackbone else {"preprocessor": None}
    ours = cls.from_preset(folder / "saved", **arguments)
    backbone = getattr(ours, "backbone", ours)
    groups = 1 if theirs == "AlbertModel" else 3
    assert (backbone.num_layers, backbone.num_groups) == (3, groups)
    assert (backbone.num_heads, backbone.intermediate_dim) == (2, 32)
    assert_computes_as(ours, folder / "hf")


def test_it_is_written_as_it_came(original, tmp_path):
    """Run as `hub.load` does, read back with the same weights, texts and inputs."""
    theirs, folder, _ = original
    is_masked_lm = theirs == "BertForMaskedLM"
    cls = AlbertMaskedLM if is_masked_lm else AlbertBackbone
    ours = cls.from_preset(folder / "saved")
    tokenizer = AlbertTokenizer.from_preset(folder / "saved")
    ours.export_to_google(tmp_path / "hub", tokenizer, layout="tf-hub")

    inputs = probe_batch(ours)
    given = {
        "input_word_ids": inputs["token_ids"],
        "input_mask": inputs["padding_mask"],
        "input_type_ids": inputs["segment_ids"],
    }
    hub = tf.saved_model.load(str(tmp_path / "hub"))
    found = hub({name: tf.constant(value) for name, value in given.items()})
    backbone = getattr(ours, "backbone", ours)
    expected = to_numpy(backbone({name: inputs[name] for name in backbone.input}))
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=2e-5)
    np.testing.assert_array_equal(found["default"], found["pooled_output"])
    assert len(found["encoder_outputs"]) == 3
    if is_masked_lm:
        given["masked_lm_positions"] = inputs["mask_positions"]
        scores = hub.mlm({name: tf.constant(value) for name, value in given.items()})
        scores = scores["mlm_logits"]
        np.testing.assert_allclose(scores, to_numpy(ours(inputs)), rtol=0, atol=2e-5)
    assert bool(hub.do_lower_case)
    # The pooler's two are there, also where the task does not use them.
    count = len(ours.trainable_variables) + 2 * is_masked_lm
    assert len(hub.trainable_variables) == count
    with open(hub.vocab_file.asset_path.numpy(), "rb") as file:
        assert file.read().split() == (folder / "vocab.txt").read_bytes().split()

    again = cls.from_preset(tmp_path / "hub")
    weights = {weight.path: weight for weight in ours.weights}
    for weight in again.weights:
        np.testing.assert_array_equal(to_numpy(weight), to_numpy(weights[weight.path]))
    configs = [
        getattr(model, "backbone", model).get_config() | {"name": None}
        for model in (ours, again)
    ]
    assert configs[0] == configs[1]
    assert AlbertTokenizer.from_preset(tmp_path / "hub").proto == tokenizer.proto


def test_it_says_whether_texts_are_lowercased(original, tmp_path):
    _, folder, variables = original
    embedder = AlbertTextEmbedder.from_preset(folder / "saved")
    tokenizer = embedder.preprocessor.tokenizer
    # By its pieces alone, it would be a cased one.
    assert tokenizer("a C").tolist() == [PIECES.index("a"), PIECES.index("c")]
    _write(tmp_path / "saved", variables, [folder / "vocab.txt"])
    embedder = AlbertTextEmbedder.from_preset(tmp_path / "saved")
    assert embedder.preprocessor.tokenizer("C").tolist() == [PIECES.index("C")]


def test_an_unknown_number_of_layers_is_an_error(original, tmp_path):
    theirs, folder, variables = original
    _write(tmp_path / "saved", variables, [folder / "vocab.txt"], with_layers=0)
    if theirs.startswith("Bert"):
        assert AlbertBackbone.from_preset(tmp_path / "saved").num_layers == 3
        return
    with pytest.raises(ValueError, match=r"saved_model\.pb.*`albert_config\.json`"):
        AlbertBackbone.from_preset(tmp_path / "saved")


def test_another_saved_model_is_not_a_checkpoint(tmp_path):
    _write(tmp_path / "saved", {"dense/kernel": np.ones((2, 2), "f")}, [])
    with pytest.raises(ValueError, match=r"contains no `config\.json`"):
        AlbertBackbone.from_preset(tmp_path / "saved")
