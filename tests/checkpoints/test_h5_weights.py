"""`tf_model.h5`, as transformers 4 wrote it: names and layouts of TensorFlow."""

import re

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_albert import AlbertBackbone, tasks
from keras_albert.checkpoints.convert import class_of
from keras_albert.checkpoints.transformers import stored_weights
from keras_albert.presets.checkpoint import open_checkpoint
from tests.compiled import to_numpy
from tests.foreign_models import save_transformers
from tests.one_backend import on_one_backend

pytestmark = on_one_backend

# Classes, and some of the names that transformers 4.56 gave their variables.
CLASSES = {
    "AlbertForPreTraining": {
        "albert/tf_albert_for_pre_training/albert/embeddings/word_embeddings/weight:0",
        "albert/tf_albert_for_pre_training/albert/encoder/albert_layer_groups_._0/"
        "albert_layers_._0/attention/dense/kernel:0",
        "predictions/tf_albert_for_pre_training/predictions/LayerNorm/gamma:0",
        "predictions/tf_albert_for_pre_training/predictions/decoder/bias:0",
        "sop_classifier/tf_albert_for_pre_training/sop_classifier/classifier/kernel:0",
    },
    "BertForPreTraining": {
        "bert/tf_bert_for_pre_training/bert/embeddings/LayerNorm/beta:0",
        "bert/tf_bert_for_pre_training/bert/embeddings/token_type_embeddings/"
        "embeddings:0",
        "bert/tf_bert_for_pre_training/bert/encoder/layer_._1/attention/self/key/"
        "kernel:0",
        "mlm___cls/tf_bert_for_pre_training/mlm___cls/predictions/bias:0",
        "nsp___cls/tf_bert_for_pre_training/nsp___cls/seq_relationship/kernel:0",
    },
    "BertForSequenceClassification": {
        "classifier/tf_bert_for_sequence_classification/classifier/kernel:0"
    },
    "BertModel": {"bert/tf_bert_model/bert/pooler/dense/kernel:0"},
    "ElectraForMaskedLM": {
        "electra/tf_electra_for_masked_lm/electra/embeddings_project/kernel:0",
        "generator_lm_head/tf_electra_for_masked_lm/generator_lm_head/bias:0",
    },
    "DistilBertForQuestionAnswering": {
        "distilbert/tf_distil_bert_for_question_answering/distilbert/transformer/"
        "layer_._0/attention/q_lin/kernel:0",
        "qa_outputs/tf_distil_bert_for_question_answering/qa_outputs/bias:0",
    },
}


def _scope(class_name):
    return "tf" + re.sub(r"(LM$|[A-Z](?!M$))", r"_\1", class_name).lower()


def _write(path, class_name, tensors):
    """Write PyTorch's tensors as the TensorFlow class of the same model did."""
    with h5py.File(path, "w") as file:
        for name, value in tensors.items():
            base = re.match("(Albert|Bert|Electra|DistilBert)", class_name)[0].lower()
            full = f"{base}.{name}" if class_name.endswith("Model") else name
            full = full.replace("cls.p", "mlm___cls.p").replace("cls.s", "nsp___cls.s")
            *scopes, kind = full.split(".")
            if scopes[-1] == "decoder" and kind == "weight":
                continue
            if "norm" in scopes[-1].lower():
                kind = {"weight": "gamma", "bias": "beta"}[kind]
            elif scopes[-1] in ("position_embeddings", "token_type_embeddings"):
                kind = "embeddings"
            elif kind == "weight" and scopes[-1] != "word_embeddings":
                kind, value = "kernel", value.T  # noqa: PLW2901
            place = "/".join((scopes[0], _scope(class_name), *scopes, kind))
            place = re.sub(r"(layer|groups|layers)/(\d)", r"\1_._\2", place)
            file[f"{place}:0"] = value
        # A head lists the embeddings that it shares, too.
        if "mlm___cls" in file:
            file[f"mlm___cls/{_scope(class_name)}/bert/embeddings/x:0"] = np.ones(2)


@pytest.fixture(scope="module", params=CLASSES)
def original(request, tmp_path_factory):
    """A class, and the directories of PyTorch's and of TensorFlow's model."""
    name = request.param
    theirs = tmp_path_factory.mktemp(name)
    save_transformers(theirs / "torch", name, num_layers=2)
    directory = theirs / "tensorflow"
    directory.mkdir()
    (directory / "config.json").symlink_to(theirs / "torch/config.json")
    tensors = load_file(theirs / "torch/model.safetensors")
    if name.startswith("Albert"):
        # The one of two biases with which TensorFlow's class computes.
        tensors["predictions.decoder.bias"] = tensors["predictions.bias"].copy()
        tensors["predictions.bias"][:] = 0
    _write(directory / "tf_model.h5", name, tensors)
    return name, theirs / "torch", directory


def test_every_weight_is_that_of_pytorch(original):
    name, torch, tensorflow = original
    with h5py.File(tensorflow / "tf_model.h5") as file:
        assert all(place in file for place in CLASSES[name])
    cls = class_of(open_checkpoint(torch))
    assert class_of(open_checkpoint(tensorflow)) is cls
    arguments = {} if cls is AlbertBackbone else {"preprocessor": None}
    task, same = (cls.from_preset(each, **arguments) for each in (tensorflow, torch))
    for mine, other in zip(task.weights, same.weights, strict=True):
        if cls is AlbertBackbone or "pooler" not in mine.path:
            np.testing.assert_array_equal(to_numpy(mine), to_numpy(other))


def test_it_is_read_if_there_are_no_other_weights(tmp_path):
    save_transformers(tmp_path, "BertModel", num_layers=1)
    (tmp_path / "tf_model.h5").write_bytes(b"not read")
    expected = AlbertBackbone.from_preset(tmp_path).get_weights()
    (tmp_path / "tf_model.h5").unlink()
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    _write(tmp_path / "tf_model.h5", "BertModel", tensors)
    assert stored_weights(tmp_path).keys() == {f"bert.{name}" for name in tensors}
    np.testing.assert_equal(
        AlbertBackbone.from_preset(tmp_path).get_weights(), expected
    )
    (tmp_path / "tf_model.h5").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"tf_model\.h5.*is damaged.*again"):
        tasks.AlbertTextEmbedder.from_preset(tmp_path)
