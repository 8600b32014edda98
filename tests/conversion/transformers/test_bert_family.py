"""BERT, ELECTRA and DistilBERT: every class with its head, in both directions."""

import json
import warnings

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_albert import AlbertBackbone, tasks
from keras_albert.conversion import convert_checkpoint
from keras_albert.conversion.convert import class_of, probe_batch
from keras_albert.presets.checkpoint import open_checkpoint
from tests.compiled import to_numpy
from tests.foreign_models import (
    assert_same_on_both_sides,
    change_config,
    save_transformers,
)
from tests.one_backend import on_one_backend_except

pytestmark = on_one_backend_except(
    "test_a_class_is_the_same_on_both_sides[AlbertPretrainer-BertForPreTraining]",
    "test_a_class_is_the_same_on_both_sides[AlbertMaskedLM-ElectraForMaskedLM]",
    "test_a_class_is_the_same_on_both_sides[AlbertClassifier-DistilBertForSequenceClassification]",
)

WEIGHTS = "model.safetensors"
TWO = {"num_classes": 2}

# The class here, and what follows the name of an architecture in transformers.
HEADS = {
    "AlbertTextEmbedder": "Model",
    "AlbertMaskedLM": "ForMaskedLM",
    "AlbertClassifier": "ForSequenceClassification",
    "AlbertTokenClassifier": "ForTokenClassification",
    "AlbertQuestionAnswerer": "ForQuestionAnswering",
    "AlbertMultipleChoice": "ForMultipleChoice",
}
CASES = [
    ("AlbertPretrainer", "BertForPreTraining"),
    *(
        (task, f"{kind}{head}")
        for kind in ("Bert", "Electra", "DistilBert")
        for task, head in HEADS.items()
    ),
]


def _load(name, directory, **arguments):
    return getattr(tasks, name).from_preset(directory, preprocessor=None, **arguments)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """A directory for each class of transformers, written when it is asked for."""
    folder = tmp_path_factory.mktemp("classes")

    def checkpoint(class_name):
        directory = folder / class_name
        if not directory.exists():
            labels = 2 if class_name.endswith("QuestionAnswering") else 3
            save_transformers(directory, class_name, num_layers=2, num_labels=labels)
        return directory

    return checkpoint


@pytest.mark.parametrize(("name", "theirs"), CASES)
def test_a_class_is_the_same_on_both_sides(name, theirs, checkpoints, tmp_path):
    directory = checkpoints(theirs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        task = _load(name, directory)
    backbone = task.backbone
    assert (backbone.num_groups, backbone.pretrained) == (2, True)
    assert backbone.embedding_dim == (8 if "Electra" in theirs else 16)
    assert_same_on_both_sides(task, directory, tmp_path / "theirs")
    before, after = (
        json.loads((place / "config.json").read_text())
        for place in (directory, tmp_path / "theirs")
    )
    unlike = {
        key for key in after if after[key] != before.get(key) and "label" not in key
    }
    # Without a rate of its own, a head has the encoder's.
    assert unlike <= {"problem_type", "classifier_dropout"}, unlike


@pytest.mark.filterwarnings("ignore:.*has no weights for pooler")
@pytest.mark.parametrize("kind", ["Bert", "Electra", "DistilBert"])
def test_a_conversion_is_checked(kind, checkpoints, tmp_path):
    """What has no pooler is compared without it."""
    done = convert_checkpoint(
        checkpoints(f"{kind}Model"),
        tmp_path / "again",
        "transformers",
        with_vocabulary=False,
    )
    assert done.differences.keys() == {"keras_albert", "transformers"}
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert config["architectures"] == [f"{kind}Model"]


@pytest.mark.parametrize(
    ("theirs", "name", "arguments", "new"),
    [
        ("ElectraForPreTraining", "AlbertTextEmbedder", {}, None),
        ("ElectraForPreTraining", "AlbertClassifier", TWO, "pooler, log"),
        ("ElectraForSequenceClassification", "AlbertClassifier", TWO, "log"),
        ("ElectraForTokenClassification", "AlbertQuestionAnswerer", {}, "span_logits"),
        ("BertForPreTraining", "AlbertMaskedLM", {}, None),
        ("BertForNextSentencePrediction", "AlbertTextEmbedder", {}, None),
        ("DistilBertForMultipleChoice", "AlbertMaskedLM", {}, "masked_lm_head"),
        ("DistilBertForMaskedLM", "AlbertMultipleChoice", {}, "pooler, score"),
    ],
)
def test_the_backbone_goes_into_any_task(checkpoints, theirs, name, arguments, new):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _load(name, checkpoints(theirs), **arguments)
    told = [str(w.message) for w in caught if "has no weights for" in str(w.message)]
    assert len(told) == (new is not None)
    assert all(f"has no weights for {new}" in text for text in told)


def test_the_dials_decide_what_a_preset_is_exported_as(checkpoints, tmp_path):
    bert = AlbertBackbone.from_preset(checkpoints("BertModel"))
    bert.save_to_preset(tmp_path / "preset")
    again = AlbertBackbone.from_preset(tmp_path / "preset")
    again.export_to_transformers(tmp_path / "bert")
    assert (
        json.loads((tmp_path / "bert/config.json").read_text())["model_type"] == "bert"
    )
    again.export_to_transformers(tmp_path / "albert", model_type="albert")
    same = AlbertBackbone.from_preset(tmp_path / "albert")
    inputs = probe_batch(bert)
    for name, value in to_numpy(bert(inputs)).items():
        np.testing.assert_allclose(to_numpy(same(inputs))[name], value, atol=1e-6)
    with pytest.raises(ValueError, match=r"sizes of 'bert'.*num_groups=1"):
        AlbertBackbone.from_config(
            bert.get_config() | {"num_groups": 1}
        ).export_to_transformers(tmp_path / "no", model_type="bert")


@pytest.mark.filterwarnings("ignore:.*has no weights for pooler")
def test_fine_tuned_segments_make_a_distilbert_a_bert(checkpoints, tmp_path):
    backbone = AlbertBackbone.from_preset(checkpoints("DistilBertModel"))
    classifier = tasks.AlbertTokenClassifier(backbone, num_classes=2)
    table = backbone.embedding.segment_embedding.embeddings
    table.assign(np.ones(table.shape))
    classifier.export_to_transformers(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["AlbertForTokenClassification"]


@pytest.mark.parametrize("kind", ["Bert", "Electra", "DistilBert"])
def test_onnx_has_every_layer_and_the_pooler_s_activation(kind, checkpoints, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    directory = checkpoints(f"{kind}ForSequenceClassification")
    task = _load("AlbertClassifier", directory, activation="softmax")
    task.export(tmp_path / "model.onnx", format="onnx")
    inputs = probe_batch(task)
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    found, *_ = session.run(["probabilities"], inputs)
    np.testing.assert_allclose(found, to_numpy(task(inputs)), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "head"),
    [("AlbertMaskedLM", "ForMaskedLM"), ("AlbertMultipleChoice", "ForMultipleChoice")],
)
def test_the_heads_of_electra_have_their_own_activation(name, head, tmp_path):
    save_transformers(tmp_path, f"Electra{head}", num_layers=1, hidden_act="relu")
    task = _load(name, tmp_path)
    assert_same_on_both_sides(task, tmp_path, tmp_path / "again")
    if name == "AlbertMaskedLM":
        with pytest.raises(ValueError, match=r"has the activation 'relu' in its head"):
            task.export_to_transformers(tmp_path / "no", model_type="albert")
        return
    change_config(tmp_path, summary_activation="tanh")
    with pytest.raises(ValueError, match=r"`summary_activation`.*'gelu'.*'tanh'"):
        _load(name, tmp_path)


@pytest.mark.parametrize("stated", [{}, {"model_type": "bert", "embedding_size": 8}])
@pytest.mark.parametrize(
    ("theirs", "name"),
    [
        ("AlbertForMaskedLM", "AlbertMaskedLM"),
        ("BertForPreTraining", "AlbertPretrainer"),
        ("BertForSequenceClassification", "AlbertBackbone"),
        ("BertForQuestionAnswering", "AlbertQuestionAnswerer"),
    ],
)
def test_weights_say_what_no_config_does(checkpoints, theirs, name, stated, tmp_path):
    original = checkpoints(theirs)
    config = json.loads((original / "config.json").read_text())
    del config["model_type"], config["architectures"]
    (tmp_path / "config.json").write_text(json.dumps(config | stated))
    (tmp_path / WEIGHTS).symlink_to(original / WEIGHTS)
    assert class_of(open_checkpoint(tmp_path)).__name__ == name


def test_former_names_are_read(checkpoints, tmp_path):
    original = checkpoints("BertForMaskedLM")
    (tmp_path / "config.json").symlink_to(original / "config.json")
    former = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in load_file(original / WEIGHTS).items()
    }
    former["bert.embeddings.position_ids"] = np.arange(24)[None]
    former["cls.predictions.decoder.bias"] = former["cls.predictions.bias"]
    save_file(former, tmp_path / WEIGHTS)
    again, task = (_load("AlbertMaskedLM", each) for each in (tmp_path, original))
    for mine, other in zip(again.weights, task.weights, strict=True):
        if "pooler" not in mine.path:
            np.testing.assert_array_equal(to_numpy(mine), to_numpy(other))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "'roberta'.*positions begin at 2.*albert, bert"),
        ({"model_type": "xlm-roberta"}, "'xlm-roberta'.*positions begin at 2"),
        ({"model_type": "deberta-v2"}, "'deberta-v2'.*relative positions"),
        ({"model_type": "modernbert"}, "'modernbert'.*rotary"),
        ({"model_type": "gpt2"}, "'gpt2'.*another architecture"),
        ({"position_embedding_type": "relative_key"}, "`position_embedding_type`"),
        ({"is_decoder": True}, "`is_decoder`.*false"),
    ],
)
@pytest.mark.parametrize("cls", [AlbertBackbone, tasks.AlbertTextEmbedder])
def test_another_architecture_is_refused(checkpoints, tmp_path, cls, changes, message):
    config = json.loads((checkpoints("BertModel") / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(ValueError, match=message):
        cls.from_preset(tmp_path)
