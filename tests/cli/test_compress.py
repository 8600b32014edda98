"""`keras-albert compress`, in this process."""

import json

import pytest

from keras_albert import (
    AlbertClassifier,
    AlbertTextClassifierPreprocessor,
    AlbertTextEmbedder,
    AlbertTextEmbedderPreprocessor,
    AlbertTokenizer,
)
from keras_albert.cli.run_command import run_command
from tests.compression.test_distill import LENGTHS, TEXTS, backbone

SHORT = ["--batch-size", 4, "--max-length", 16]


@pytest.fixture(scope="module")
def presets(tiny_proto, tmp_path_factory):
    """An embedder and a classifier."""
    folder = tmp_path_factory.mktemp("presets")
    tokenizer = AlbertTokenizer(tiny_proto)
    preprocessor = AlbertTextEmbedderPreprocessor(tokenizer, **LENGTHS)
    AlbertTextEmbedder(backbone(), preprocessor).save_to_preset(folder / "embedder")
    narrow = AlbertTextEmbedder(backbone(hidden_dim=8), preprocessor)
    narrow.save_to_preset(folder / "narrow")
    task = AlbertClassifier(
        backbone(),
        labels=("bad", "good"),
        preprocessor=AlbertTextClassifierPreprocessor(tokenizer, **LENGTHS),
    )
    task.save_to_preset(folder / "classifier")
    (folder / "texts.txt").write_text("\n".join(TEXTS * 2))
    rows = [f"{text}\t{('bad', 'good')[i % 2]}" for i, text in enumerate(TEXTS)]
    (folder / "train.tsv").write_text("\n".join(["text\tlabel", *rows]))
    (folder / "dev.tsv").write_text("\n".join(["text\tlabel", *rows[:10]]))
    return folder


def compress(*words):
    return run_command([str(word) for word in ("compress", *words)])


def test_an_embedder_is_compressed_with_texts(presets, tmp_path, capsys):
    sizes = ["--groups", 1, "--embedding-dim", 8]
    texts = ["--texts", presets / "texts.txt", "--steps", 3]
    words = [presets / "embedder", tmp_path / "run", *sizes, *texts, *SHORT]
    assert compress(*words) == 0
    printed = capsys.readouterr().out
    assert "72 texts, 7 of them held out" in printed
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    models = report["models"]
    assert list(models) == ["original", "start", "compressed"]
    assert models["original"]["cosine"] == pytest.approx(1)
    assert models["compressed"]["parameters"] < models["original"]["parameters"]
    assert len(report["curve"]) == 3
    small = AlbertTextEmbedder.from_preset(tmp_path / "run" / "preset")
    assert small.backbone.num_groups == 1
    assert small.backbone.embedding_dim == 8
    card = (tmp_path / "run" / "preset" / "README.md").read_text()
    assert f"| compressed | {models['compressed']['parameters']:,.0f} |" in card
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        *("preset", "report.json", "curve.csv", "compression.png")
    }
    assert compress(*words) == 1
    assert "the run is finished" in capsys.readouterr().err


def test_a_classifier_is_compressed_with_its_own_data(presets, tmp_path, capsys):
    files = ["--train", presets / "train.tsv", "--dev", presets / "dev.tsv"]
    words = [presets / "classifier", tmp_path / "run", "--layers", 1, *files]
    assert compress(*words, "--steps", 2, "--license", "apache-2.0") == 0
    models = json.loads((tmp_path / "run" / "report.json").read_text())["models"]
    assert set(models["start"]) == set(models["compressed"])
    assert "accuracy" in models["original"]
    small = AlbertClassifier.from_preset(tmp_path / "run" / "preset")
    assert small.backbone.num_layers == 1
    assert small.labels == ("bad", "good")


def test_a_small_model_goes_on_as_the_student(presets, tmp_path):
    texts = ["--texts", presets / "texts.txt", "--steps", 2, *SHORT]
    small = ["--student", tmp_path / "first" / "preset"]
    first = [presets / "embedder", tmp_path / "first", "--layers", 1]
    assert compress(*first) == 0
    assert compress(presets / "embedder", tmp_path / "next", *small, *texts) == 0
    # As the backbone of another task, with the head of the teacher.
    files = ["--train", presets / "train.tsv", "--dev", presets / "dev.tsv"]
    words = [presets / "classifier", tmp_path / "task", *small, *files, "--steps", 1]
    assert compress(*words) == 0
    assert AlbertClassifier.from_preset(tmp_path / "task" / "preset").num_classes == 2


def test_without_data_the_start_is_saved(presets, tmp_path):
    words = [presets / "embedder", tmp_path / "run", "--embedding-dim", 8]
    assert compress(*words) == 0
    models = json.loads((tmp_path / "run" / "report.json").read_text())["models"]
    assert list(models) == ["original", "start"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "Nothing would become smaller: pass at least one of --num-groups"),
        (["--groups", 1, "--texts", "t"], "Pass --hours, or --steps"),
        (["--groups", 1, "--train", "dev.tsv"], "Pass both --train and --dev"),
        (
            ["--groups", 1, "--texts", "texts.txt", "no.txt", "--steps", 1],
            "--texts: there is no file no.txt",
        ),
        (["--groups", 1, "--hours", 1], "There is nothing to train on"),
        (["--groups", 1, "--student", "x"], "--student sets the sizes"),
        (
            ["--student", "narrow", "--texts", "texts.txt", "--steps", 1],
            "and the same width",
        ),
        (["--groups", 3], "--num-groups: `num_groups` can only be reduced"),
        (
            ["--groups", 1, "--train", "dev.tsv", "--dev", "dev.tsv"],
            "An AlbertTextEmbedder learns from --texts",
        ),
    ],
)
def test_arguments_are_checked(presets, tmp_path, capsys, monkeypatch, words, message):
    monkeypatch.chdir(presets)
    assert compress("embedder", tmp_path / "run", *words) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run" / "preset").exists()
