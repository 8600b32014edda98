"""The command `convert`, and the input that it refuses."""

import numpy as np
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier, AlbertTokenizer
from keras_albert.checkpoints import GOOGLE, KERAS_HUB, convert_checkpoint
from keras_albert.cli.run_command import run_command
from keras_albert.presets.checkpoint import open_checkpoint
from tests.foreign_models import TINY, change_config, save_transformers
from tests.random_weights import add_noise

SIZES = TINY | {"vocabulary_size": 130, "num_layers": 1}
TARGETS = ["keras-albert", "transformers", "keras-hub", "google"]


@pytest.fixture(scope="module")
def source(tiny_proto, tmp_path_factory):
    """A classifier of transformers, with a vocabulary."""
    directory = tmp_path_factory.mktemp("source")
    save_transformers(
        directory,
        "AlbertForSequenceClassification",
        **(SIZES | {"activation": "gelu_new"}),
        id2label={0: "bad", 1: "good"},
    )
    (directory / "spiece.model").write_bytes(tiny_proto)
    return directory


@pytest.fixture
def spoiled(source, tmp_path):
    """A copy to damage, alone in its folder."""
    directory = tmp_path / "source"
    directory.mkdir()
    for path in source.iterdir():
        (directory / path.name).write_bytes(path.read_bytes())
    return directory


@pytest.mark.parametrize("to", TARGETS)
def test_a_checkpoint_goes_into_each_format(source, tmp_path, to, capsys):
    if to == "google":
        pytest.importorskip("tensorflow")
    target = tmp_path / "target"
    assert run_command(["convert", str(source), str(target), "--to", to]) == 0
    shown = capsys.readouterr()
    # Neither logs nor progress bars of other libraries.
    assert shown.err == ""
    printed = shown.out
    for part in ("AlbertClassifier", "logits/kernel", "keras_albert: largest diff"):
        assert part in printed
    peer = {"transformers": "transformers: ", "keras-hub": "KerasHub: "}.get(to, "")
    assert peer in printed
    expected = AlbertClassifier.from_preset(source)
    found = AlbertClassifier.from_preset(target)
    texts = ["a café in town", "the crew went back"]
    outputs = (model.predict(texts, verbose=0) for model in (found, expected))
    np.testing.assert_allclose(*outputs, rtol=0, atol=2e-5)
    # Neither KerasHub's nor Google's format stores names.
    names = ("bad", "good") if to in TARGETS[:2] else None
    assert found.labels == names
    assert [path.name for path in tmp_path.iterdir()] == ["target"]


@pytest.mark.parametrize("to", TARGETS)
def test_adapters_are_merged_where_a_format_has_none(tmp_path, to):
    if to == "google":
        pytest.importorskip("tensorflow")
    arguments = SIZES | {"num_layers": 3, "adapter_rank": 2}
    backbone = add_noise(AlbertBackbone(**arguments), 0.1)
    backbone.save_to_preset(tmp_path / "ours")
    # Outputs that differ are an error.
    convert_checkpoint(
        tmp_path / "ours", tmp_path / "theirs", to, with_vocabulary=False
    )
    found = AlbertBackbone.from_preset(tmp_path / "theirs")
    assert found.num_groups == (1 if to == "keras-albert" else 3)


def test_a_backbone_goes_with_its_vocabulary(source, tmp_path):
    done = convert_checkpoint(
        source, tmp_path / "hub", "keras-hub", task="AlbertBackbone"
    )
    assert done.model == "AlbertBackbone"
    assert set(done.differences) == {"keras_albert", "KerasHub"}
    weights = {path: (before, after) for path, before, after, _ in done.weights}
    assert weights["pooler/kernel"] == ("albert.pooler.weight", "pooled_dense/kernel")
    assert len(weights) == len(AlbertBackbone(**SIZES).weights)
    assert open_checkpoint(tmp_path / "hub").format is KERAS_HUB
    convert_checkpoint(tmp_path / "hub", tmp_path / "ours", "keras-albert")
    tokenizer = AlbertTokenizer.from_preset(tmp_path / "ours")
    assert list(tokenizer("Café")) == list(AlbertTokenizer.from_preset(source)("Café"))


def test_nothing_is_written_where_outputs_differ(source, tmp_path, monkeypatch, capsys):
    dump = type(KERAS_HUB).dump

    def wrong(self, model):
        tensors = dump(self, model)
        return tensors | {"logits/bias": tensors["logits/bias"] + 1e-3}

    monkeypatch.setattr(type(KERAS_HUB), "dump", wrong)
    target = tmp_path / "target"
    assert run_command(["convert", str(source), str(target), "--to", "keras-hub"]) == 1
    assert "largest difference is 1.00e-03" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def _truncate(directory):
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-9])


# The tests of each format have the others.
SPOILED = {
    "truncated": (_truncate, "is damaged"),
    "config": (lambda d: change_config(d, hidden_size=32), "wrong shape"),
    "no vocabulary": (lambda d: (d / "spiece.model").unlink(), "has no spiece"),
    "damaged vocabulary": (
        lambda d: (d / "spiece.model").write_bytes(b"noise"),
        "not a whole SentencePiece model",
    ),
}


@pytest.mark.parametrize("how", SPOILED)
def test_bad_input_is_refused_and_leaves_nothing(spoiled, tmp_path, how, capsys):
    spoil, message = SPOILED[how]
    spoil(spoiled)
    before = sorted(tmp_path.iterdir())
    target = tmp_path / "target"
    words = ["convert", str(spoiled), str(target), "--to", "transformers"]
    assert run_command(words) == 1
    assert message in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("/no/such", "x", "google"), "neither an existing directory"),
        (("{source}", "{source}", "google"), "already exists"),
        (("{source}", "x", "google", "Bert"), "`task` must be one of .*task='Bert'"),
        (
            ("{source}", "x", "google", "squad_scores"),
            "`task` .*'AlbertClassifier'.*task='squ",
        ),
        (("{source}", "x", "pdf"), "'transformers', .*Received: format='pdf'"),
    ],
)
def test_wrong_arguments_are_named(source, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    arguments = [text.format(source=source) for text in arguments]
    with pytest.raises((ValueError, FileExistsError), match=message):
        convert_checkpoint(*arguments)
    assert not list(tmp_path.iterdir())


def test_what_the_target_cannot_hold_is_refused(tmp_path):
    pytest.importorskip("tensorflow")
    save_transformers(tmp_path / "erf", **(SIZES | {"activation": "gelu"}))
    with pytest.raises(ValueError, match="no name for activation='gelu'"):
        convert_checkpoint(
            tmp_path / "erf", tmp_path / "out", GOOGLE.key, with_vocabulary=False
        )
    assert [path.name for path in tmp_path.iterdir()] == ["erf"]
