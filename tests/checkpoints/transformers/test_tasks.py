"""Every class of transformers with its head, from transformers and to it."""

import json
import warnings

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_albert import AlbertBackbone, tasks
from keras_albert.checkpoints import convert_checkpoint
from keras_albert.checkpoints.convert import class_of, probe_batch
from keras_albert.presets.checkpoint import open_checkpoint
from tests.compiled import to_numpy
from tests.foreign_models import (
    TINY,
    assert_same_on_both_sides,
    change_config,
    save_transformers,
)
from tests.one_backend import on_one_backend_except

ALBERTS = {
    "AlbertForSequenceClassification": ("AlbertClassifier", {"num_labels": 3}),
    "AlbertForTokenClassification": ("AlbertTokenClassifier", {"num_labels": 5}),
    "AlbertForQuestionAnswering": ("AlbertQuestionAnswerer", {"hidden_act": "gelu"}),
    "AlbertForMultipleChoice": ("AlbertMultipleChoice", {"embedding_dim": 16}),
    "AlbertForMaskedLM": (
        "AlbertMaskedLM",
        {"hidden_act": "gelu", "num_groups": 2, "num_inner_repetitions": 2},
    ),
    "AlbertForPreTraining": (
        "AlbertPretrainer",
        {"num_groups": 2, "num_inner_repetitions": 2},
    ),
    "AlbertModel": ("AlbertTextEmbedder", {"layer_norm_eps": 1e-7}),
}
# What follows the name of another architecture in transformers.
HEADS = {
    "Model": "AlbertTextEmbedder",
    "ForMaskedLM": "AlbertMaskedLM",
    "ForSequenceClassification": "AlbertClassifier",
    "ForTokenClassification": "AlbertTokenClassifier",
    "ForQuestionAnswering": "AlbertQuestionAnswerer",
    "ForMultipleChoice": "AlbertMultipleChoice",
}
# The class here of each class of transformers.
CASES = {theirs: name for theirs, (name, _) in ALBERTS.items()}
CASES |= {
    f"{kind}{head}": name
    for kind in ("Bert", "Electra", "DistilBert")
    for head, name in HEADS.items()
}
CASES["BertForPreTraining"] = "AlbertPretrainer"

pytestmark = on_one_backend_except(
    *(f"test_a_class_is_the_same_on_both_sides[{theirs}]" for theirs in ALBERTS),
    "test_a_class_is_the_same_on_both_sides[BertForPreTraining]",
    "test_a_class_is_the_same_on_both_sides[ElectraForMaskedLM]",
    "test_a_class_is_the_same_on_both_sides[DistilBertForSequenceClassification]",
)

WEIGHTS = "model.safetensors"
TWO = {"num_classes": 2}


def _load(name, directory, **arguments):
    return getattr(tasks, name).from_preset(directory, preprocessor=None, **arguments)


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """A directory for each class of transformers, written when it is asked for."""
    folder = tmp_path_factory.mktemp("classes")

    def checkpoint(theirs):
        directory = folder / theirs
        if not directory.exists():
            is_fixed = theirs.endswith(("QuestionAnswering", "PreTraining"))
            options = {"num_layers": 2, "num_labels": 2 if is_fixed else 3}
            if theirs.startswith("Albert"):
                options |= {"hidden_act": "gelu_new"} | ALBERTS[theirs][1]
            save_transformers(directory, theirs, **options)
        return directory

    return checkpoint


@pytest.mark.parametrize("theirs", CASES)
def test_a_class_is_the_same_on_both_sides(theirs, checkpoints, tmp_path):
    directory, name = checkpoints(theirs), CASES[theirs]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        task = _load(name, directory)
    assert task.backbone.pretrained
    if not theirs.startswith("Albert"):
        assert task.backbone.num_groups == 2
        assert task.backbone.embedding_dim == (8 if "Electra" in theirs else 16)
    assert_same_on_both_sides(task, directory, tmp_path)
    before, after = (
        json.loads((place / "config.json").read_text())
        for place in (directory, tmp_path)
    )
    unlike = {key for key in after if after[key] != before.get(key)}
    # The names of labels that have none; without a rate of its own, a head has the
    # encoder's.
    assert unlike <= {"problem_type", "classifier_dropout", "id2label", "label2id"}
    assert open_checkpoint(tmp_path).task_name() == (
        None if name == "AlbertTextEmbedder" else name
    )


@pytest.mark.parametrize(
    ("theirs", "name", "arguments", "new"),
    [
        ("AlbertForMaskedLM", "AlbertClassifier", TWO, "pooler, logits"),
        ("AlbertForMaskedLM", "AlbertTokenClassifier", TWO, "logits"),
        ("AlbertForTokenClassification", "AlbertQuestionAnswerer", {}, "span_logits"),
        ("AlbertForMultipleChoice", "AlbertClassifier", {"num_classes": 1}, "logits"),
        ("AlbertForSequenceClassification", "AlbertMultipleChoice", {}, "score"),
        ("AlbertModel", "AlbertClassifier", {"labels": ["a", "b"]}, "logits"),
        ("AlbertForPreTraining", "AlbertClassifier", {"num_classes": 3}, "logits"),
        ("AlbertForMaskedLM", "AlbertPretrainer", {}, "pooler, sentence_order"),
        ("AlbertForMaskedLM", "AlbertTextEmbedder", {}, None),
        ("AlbertForPreTraining", "AlbertMaskedLM", {}, None),
        ("ElectraForPreTraining", "AlbertTextEmbedder", {}, None),
        ("ElectraForPreTraining", "AlbertClassifier", TWO, "pooler, logits"),
        ("ElectraForSequenceClassification", "AlbertClassifier", TWO, "logits"),
        ("ElectraForTokenClassification", "AlbertQuestionAnswerer", {}, "span_logits"),
        ("BertForPreTraining", "AlbertMaskedLM", {}, None),
        ("BertForNextSentencePrediction", "AlbertTextEmbedder", {}, None),
        ("DistilBertForMultipleChoice", "AlbertMaskedLM", {}, "masked_lm_head"),
        ("DistilBertForMaskedLM", "AlbertMultipleChoice", {}, "pooler, score"),
    ],
)
def test_the_backbone_goes_into_any_task(checkpoints, theirs, name, arguments, new):
    directory = checkpoints(theirs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task = _load(name, directory, **arguments)
        said = [x for x in map(str, (w.message for w in caught)) if " for " in x]
        backbone = AlbertBackbone.from_preset(directory)
    said = [text.split("has no weights for ")[1].split(", which")[0] for text in said]
    assert len(said) == (new is not None)
    assert all(text.startswith(new) for text in said)
    for mine, other in zip(task.backbone.weights, backbone.weights, strict=True):
        if not mine.path.startswith("pooler"):
            np.testing.assert_array_equal(to_numpy(mine), to_numpy(other))


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
    with pytest.raises(ValueError, match="sizes of 'bert'"):
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
        with pytest.raises(ValueError, match="activation='gelu', only with 'relu'"):
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
        ({"model_type": "roberta"}, "'roberta'.*different arch.*albert, bert"),
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


def test_labels_and_dropout_are_read_and_written(tmp_path):
    named = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
    save_transformers(
        tmp_path / "theirs",
        "AlbertForSequenceClassification",
        num_layers=2,
        classifier_dropout_prob=0.25,
        attention_probs_dropout_prob=0.05,
        hidden_dropout_prob=0.15,
        **named,
    )
    classifier = _load("AlbertClassifier", tmp_path / "theirs")
    assert classifier.labels == ("bad", "good")
    assert classifier.dropout == 0.25
    assert classifier.backbone.attention_dropout == 0.05
    classifier.export_to_transformers(tmp_path / "again")
    config = json.loads((tmp_path / "again" / "config.json").read_text())
    assert config["id2label"] == {"0": "bad", "1": "good"}
    assert config["label2id"] == named["label2id"]
    assert config["classifier_dropout_prob"] == 0.25
    assert config["hidden_dropout_prob"] == 0.15
    again = _load("AlbertClassifier", tmp_path / "theirs", dropout=0.5)
    assert (again.labels, again.dropout) == (("bad", "good"), 0.5)


def test_names_that_are_made_up_are_no_names(checkpoints):
    directory = checkpoints("AlbertForSequenceClassification")
    classifier = _load("AlbertClassifier", directory)
    assert (classifier.num_classes, classifier.labels) == (3, None)


def test_a_head_of_another_width_is_refused(checkpoints, tmp_path):
    original = checkpoints("AlbertForSequenceClassification")
    (tmp_path / WEIGHTS).symlink_to(original / WEIGHTS)
    config = json.loads((original / "config.json").read_text())
    named = {str(number): f"LABEL_{number}" for number in range(4)}
    (tmp_path / "config.json").write_text(json.dumps(config | {"id2label": named}))
    message = r"classifier\.weight is \(3, 16\) instead of \(4, 16\)"
    with pytest.raises(ValueError, match=message):
        _load("AlbertClassifier", tmp_path)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("AlbertQuestionAnswerer", {"head": "conditional"}, "has no model with the h"),
        ("AlbertClassifier", {"num_classes": 2, "activation": "tanh"}, "no classifier"),
    ],
)
def test_what_transformers_has_not_is_refused(name, arguments, message, tmp_path):
    backbone = AlbertBackbone(**(TINY | {"num_layers": 1}))
    task = getattr(tasks, name)(backbone, **arguments)
    with pytest.raises(ValueError, match=message):
        task.export_to_transformers(tmp_path / "theirs")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("spoil", ["nan", "lora"])
def test_weights_that_cannot_be_written_leave_nothing_behind(tmp_path, spoil):
    backbone = AlbertBackbone(**(TINY | {"num_layers": 1}))
    if spoil == "nan":
        backbone.pooler.bias.assign(np.full(16, np.nan))
    else:
        backbone.enable_lora(2)
    with pytest.raises(ValueError, match=r"not finite|other weights than"):
        backbone.export_to_transformers(tmp_path / "theirs")
    assert not list(tmp_path.iterdir())


def test_untied_weights_are_refused(checkpoints, tmp_path):
    original = checkpoints("AlbertForPreTraining")
    (tmp_path / "config.json").symlink_to(original / "config.json")
    tensors = load_file(original / WEIGHTS)
    tensors["predictions.decoder.bias"] = tensors["predictions.bias"]
    save_file(tensors, tmp_path / WEIGHTS)
    _load("AlbertPretrainer", tmp_path)
    tensors["predictions.decoder.bias"] = tensors["predictions.bias"] + 1
    save_file(tensors, tmp_path / WEIGHTS)
    with pytest.raises(ValueError, match=r"predictions\.decoder\.bias` differs"):
        _load("AlbertPretrainer", tmp_path)
