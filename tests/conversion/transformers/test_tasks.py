"""Every class of transformers with its head, from transformers and to it."""

import json
import warnings

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_albert import AlbertBackbone, tasks
from keras_albert.presets.checkpoint import open_checkpoint
from tests.compiled import to_numpy
from tests.foreign_models import TINY, assert_same_on_both_sides, save_transformers
from tests.one_backend import on_one_backend_except

pytestmark = on_one_backend_except("test_a_class_is_the_same_on_both_sides")

WEIGHTS = "model.safetensors"
GROUPS = {"num_groups": 2, "num_inner_repetitions": 2}

# The class here, the class of transformers, and arguments of the model.
CASES = [
    ("AlbertClassifier", "AlbertForSequenceClassification", {"num_labels": 3}),
    ("AlbertTokenClassifier", "AlbertForTokenClassification", {"num_labels": 5}),
    ("AlbertQuestionAnswerer", "AlbertForQuestionAnswering", {"activation": "gelu"}),
    ("AlbertMultipleChoice", "AlbertForMultipleChoice", {"embedding_dim": 16}),
    ("AlbertMaskedLM", "AlbertForMaskedLM", {"activation": "gelu", **GROUPS}),
    ("AlbertPretrainer", "AlbertForPreTraining", GROUPS),
    ("AlbertTextEmbedder", "AlbertModel", {"layer_norm_epsilon": 1e-7}),
]
THEIRS = {ours: theirs for ours, theirs, _ in CASES}


def _load(name, directory, **arguments):
    return getattr(tasks, name).from_preset(directory, preprocessor=None, **arguments)


def _save(directory, class_name, **arguments):
    tiny = {"num_layers": 2, "hidden_act": "gelu_new"}
    if "activation" in arguments:
        del tiny["hidden_act"]
    if "layer_norm_epsilon" in arguments:
        arguments["layer_norm_eps"] = arguments.pop("layer_norm_epsilon")
    return save_transformers(directory, class_name, **(tiny | arguments))


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """A directory for each class of transformers."""
    folder = tmp_path_factory.mktemp("classes")
    for _, theirs, arguments in CASES:
        _save(folder / theirs, theirs, **arguments)
    return folder


@pytest.mark.parametrize("name", THEIRS)
def test_a_class_is_the_same_on_both_sides(name, checkpoints, tmp_path):
    directory = checkpoints / THEIRS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        task = _load(name, directory)
    assert task.backbone.pretrained
    assert_same_on_both_sides(task, directory, tmp_path / "theirs")


@pytest.mark.parametrize("name", THEIRS)
def test_the_config_comes_back(name, checkpoints, tmp_path):
    import transformers

    directory = checkpoints / THEIRS[name]
    task = _load(name, directory, load_weights=False)
    task.export_to_transformers(tmp_path)
    original, written = (
        transformers.AlbertConfig.from_pretrained(place).to_dict()
        for place in (directory, tmp_path)
    )
    unlike = {key for key in original if original[key] != written.get(key)}
    # These do not change the model; the exported config adds the problem type.
    assert unlike <= {"_name_or_path", "transformers_version", "problem_type"}
    assert open_checkpoint(tmp_path).task_name() == (
        None if name == "AlbertTextEmbedder" else name
    )


@pytest.mark.parametrize(
    ("theirs", "name", "arguments", "new"),
    [
        ("AlbertForMaskedLM", "AlbertClassifier", {"num_classes": 2}, "pooler, logits"),
        ("AlbertForMaskedLM", "AlbertTokenClassifier", {"num_classes": 2}, "logits"),
        ("AlbertForTokenClassification", "AlbertQuestionAnswerer", {}, "span_logits"),
        ("AlbertForMultipleChoice", "AlbertClassifier", {"num_classes": 1}, "logits"),
        ("AlbertForSequenceClassification", "AlbertMultipleChoice", {}, "score"),
        ("AlbertModel", "AlbertClassifier", {"labels": ["a", "b"]}, "logits"),
        ("AlbertForPreTraining", "AlbertClassifier", {"num_classes": 3}, "logits"),
        ("AlbertForMaskedLM", "AlbertPretrainer", {}, "pooler, sentence_order"),
        ("AlbertForMaskedLM", "AlbertTextEmbedder", {}, None),
        ("AlbertForPreTraining", "AlbertMaskedLM", {}, None),
    ],
)
def test_the_backbone_goes_into_any_task(checkpoints, theirs, name, arguments, new):
    directory = checkpoints / theirs
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        task = _load(name, directory, **arguments)
    said = [str(w.message) for w in caught if "has no weights for" in str(w.message)]
    assert [text.split(" for ")[1].split(", which")[0] for text in said] == (
        [new] if new else []
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        backbone = AlbertBackbone.from_preset(directory)
    for mine, other in zip(task.backbone.weights, backbone.weights, strict=True):
        if not mine.path.startswith("pooler"):
            np.testing.assert_array_equal(to_numpy(mine), to_numpy(other))


def test_labels_and_dropout_are_read_and_written(tmp_path):
    named = {"id2label": {0: "bad", 1: "good"}, "label2id": {"bad": 0, "good": 1}}
    _save(
        tmp_path / "theirs",
        "AlbertForSequenceClassification",
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
    directory = checkpoints / "AlbertForSequenceClassification"
    classifier = _load("AlbertClassifier", directory)
    assert (classifier.num_classes, classifier.labels) == (3, None)


def test_a_head_of_another_width_is_refused(checkpoints, tmp_path):
    original = checkpoints / "AlbertForSequenceClassification"
    (tmp_path / WEIGHTS).symlink_to(original / WEIGHTS)
    config = json.loads((original / "config.json").read_text())
    named = {str(number): f"LABEL_{number}" for number in range(4)}
    (tmp_path / "config.json").write_text(json.dumps(config | {"id2label": named}))
    message = r"4 classes.*classifier.weight .*\(3, 16\).*\(4, 16\)"
    with pytest.raises(ValueError, match=message):
        _load("AlbertClassifier", tmp_path)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("AlbertQuestionAnswerer", {"head": "conditional"}, "has no model with the h"),
        ("AlbertClassifier", {"num_classes": 2, "activation": "tanh"}, "returns logi"),
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
    with pytest.raises(ValueError, match=r"not finite|no mapping names"):
        backbone.export_to_transformers(tmp_path / "theirs")
    assert not list(tmp_path.iterdir())


def test_untied_weights_are_refused(checkpoints, tmp_path):
    from safetensors.numpy import save_file

    original = checkpoints / "AlbertForPreTraining"
    (tmp_path / "config.json").symlink_to(original / "config.json")
    tensors = load_file(original / WEIGHTS)
    tensors["predictions.decoder.bias"] = tensors["predictions.bias"]
    save_file(tensors, tmp_path / WEIGHTS)
    _load("AlbertPretrainer", tmp_path)
    tensors["predictions.decoder.bias"] = tensors["predictions.bias"] + 1
    save_file(tensors, tmp_path / WEIGHTS)
    with pytest.raises(ValueError, match=r"predictions\.decoder\.bias` differs"):
        _load("AlbertPretrainer", tmp_path)
