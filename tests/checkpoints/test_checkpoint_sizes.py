"""Configs of models that their files cannot contain."""

import pytest
from safetensors.numpy import load_file

from keras_albert import AlbertBackbone, AlbertClassifier
from keras_albert.checkpoints import export_checkpoint
from tests.foreign_models import TINY, change_config, change_json, transformers_model


@pytest.fixture
def checkpoint(tmp_path):
    pytest.importorskip("torch")
    theirs = transformers_model("AlbertForSequenceClassification")
    theirs.save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classifier_dropout_prob": 5}, "`classifier_dropout_prob`.*=5"),
        ({"num_labels": "x", "id2label": None}, "`num_classes`.*'x'"),
        ({"num_labels": 10**7, "id2label": None}, "describes a model of at least"),
        ({"num_labels": 10**400, "id2label": None}, "describes a model of at least"),
        (
            {"id2label": {str(n): f"{n}" for n in range(10**5)}},
            r"unexpected shape|classifier\.weight",
        ),
        ({"id2label": {"0": ["a"], "1": "b"}}, "`id2label`.*a name for each"),
        ({"id2label": {"1" * 5000: "a"}}, "`id2label`.*a name for each"),
    ],
)
def test_a_head_of_another_kind_is_refused(checkpoint, changes, message):
    change_config(checkpoint, **changes)
    with pytest.raises(ValueError, match=message):
        AlbertClassifier.from_preset(checkpoint, preprocessor=None)


def as_safetensors(directory):
    pass


def as_torch(directory):
    import torch

    path = directory / "model.safetensors"
    state = {name: torch.from_numpy(x) for name, x in load_file(path).items()}
    torch.save(state, directory / "pytorch_model.bin")
    path.unlink()


def as_keras_hub(directory):
    backbone = AlbertBackbone.from_preset(directory)
    classifier = AlbertClassifier(backbone, num_classes=2)
    for path in directory.iterdir():
        path.unlink()
    export_checkpoint(classifier, directory, "keras-hub")


def as_google(directory):
    pytest.importorskip("tensorflow")
    backbone = AlbertBackbone.from_preset(directory)
    for path in directory.iterdir():
        path.unlink()
    export_checkpoint(backbone, directory, "google")


KEYS = {"vocabulary_size": "vocab_size", "hidden_dim": "hidden_size"}
KEYS |= {"num_layers": "num_hidden_layers", "num_inner_repetitions": "inner_group_num"}


@pytest.mark.parametrize("convert", [as_safetensors, as_torch, as_keras_hub, as_google])
@pytest.mark.parametrize("name", KEYS)
def test_they_are_refused_in_every_format(checkpoint, convert, name):
    convert(checkpoint)
    files = list(checkpoint.glob("*config.json"))
    (path,) = [path for path in files if path.name != "tokenizer_config.json"]
    value = TINY.get(name, 1) * 10**6
    if convert is as_keras_hub:
        change_json(path, "config", **{name: value})
        # `task.json` must agree.
        change_json(
            checkpoint / "task.json", "config", "backbone", "config", **{name: value}
        )
    else:
        change_json(path, **{KEYS[name]: value})
    message = "describes a model of at least|must be at most 1000"
    for load_weights in (True, False):
        with pytest.raises(ValueError, match=message):
            AlbertBackbone.from_preset(checkpoint, load_weights=load_weights)


def test_classes_of_keras_hub_are_bounded(checkpoint):
    as_keras_hub(checkpoint)
    change_json(checkpoint / "task.json", "config", num_classes=10**8)
    with pytest.raises(ValueError, match="describes a model of at least 1,600,000,000"):
        AlbertClassifier.from_preset(checkpoint, preprocessor=None)


def test_files_that_contradict_each_other_are_refused(checkpoint):
    as_keras_hub(checkpoint)
    more = {"num_layers": TINY["num_layers"] + 1}
    change_json(checkpoint / "task.json", "config", "backbone", "config", **more)
    with pytest.raises(ValueError, match=r"task\.json and config\.json .*`num_layers`"):
        AlbertBackbone.from_preset(checkpoint)


def test_without_weights_any_size_may_be_built(checkpoint):
    change_config(checkpoint, vocab_size=5000)
    for path in checkpoint.glob("*.safetensors"):
        path.unlink()
    backbone = AlbertBackbone.from_preset(checkpoint, load_weights=False)
    assert backbone.vocabulary_size == 5000
