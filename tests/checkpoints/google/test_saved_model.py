"""TF-Hub's SavedModels of ALBERT and BERT: weights, sizes and vocabulary."""

import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertMaskedLM, AlbertTextEmbedder
from keras_albert.checkpoints.convert import class_of
from keras_albert.presets.checkpoint import open_checkpoint
from tests.checkpoints.google.test_model_garden import garden_variables
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
