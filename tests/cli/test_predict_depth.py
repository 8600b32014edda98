"""`keras-albert predict` with a depth, or with exits."""

import json

import pytest

from keras_albert import AlbertBackbone, AlbertClassifier
from keras_albert.cli.run_command import run_command
from tests.exports.served_models import make_task

TEXTS = ["the river runs", "in 2011, the captain said", "not today", "wind comes in"]


@pytest.fixture(scope="module")
def plain(tiny_proto):
    return make_task("Classifier", tiny_proto, labels=("bad", "good"))


@pytest.fixture(scope="module")
def with_exits(plain):
    config = plain.backbone.get_config() | {"num_layers": 6}
    return AlbertClassifier(
        AlbertBackbone.from_config(config),
        preprocessor=plain.preprocessor,
        labels=("bad", "good"),
        exits=True,
    )


@pytest.fixture
def predict(tmp_path):
    file = tmp_path / "texts.txt"
    file.write_text("".join(f"{text}\n" for text in TEXTS))

    def predict(model, *options):
        if not isinstance(model, str):
            model.save_to_preset(tmp_path / "preset")
            model = tmp_path / "preset"
        output = tmp_path / "answers.jsonl"
        output.unlink(missing_ok=True)
        words = ["predict", model, file, "--output", output, *options]
        status = run_command([str(word) for word in words])
        return (
            [json.loads(x) for x in output.read_text().splitlines()]
            if not status
            else None
        )

    return predict


def test_texts_leave(with_exits, predict):
    answers = predict(with_exits, "--patience", 1, "--return-depths")
    expected = with_exits.classify(TEXTS, patience=1, return_depths=True)
    assert [set(answer) for answer in answers] == [{"label", "score", "depth"}] * 4
    assert [row["depth"] for row in answers] == [row["depth"] for row in expected]
    # One of two probabilities is always as large.
    answers = predict(with_exits, "--threshold", 0.5, "--return-depths")
    assert [row["depth"] for row in answers] == [1] * 4


def test_fewer_layers(plain, predict):
    answers = predict(plain, "--num-layers", 1)
    outputs = plain.probabilities(plain.predict(TEXTS, num_layers=1, verbose=0))
    assert [row["score"] for row in answers] == pytest.approx(
        outputs.max(axis=-1).tolist(), abs=1e-4
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--patience", 1], "built with `exits=True`"),
        (["--patience", 1, "--num-layers", 1], "built with `exits=True`"),
    ],
)
def test_a_preset_without_exits(plain, predict, options, message, capsys):
    assert predict(plain, *options) is None
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("name", "option"), [("model.onnx", "--num-layers"), ("model.tflite", "--patience")]
)
def test_an_export_has_one_depth(name, option, predict, tmp_path, capsys):
    (tmp_path / name).write_bytes(b"")
    assert predict(str(tmp_path / name), option, 1) is None
    assert "whose depth is fixed" in " ".join(capsys.readouterr().err.split())
