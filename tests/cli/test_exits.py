"""`keras-albert finetune --exits`, then `keras-albert exits`."""

import importlib.util
import json

import pytest

from keras_albert import AlbertClassifier
from keras_albert.cli import finetune as command
from keras_albert.cli.run_command import run_command
from tests.cli.finetune_runs import training_file

ROWS = [("a fine film", "good"), ("a dull mess", "bad"), ("fine acting", "good")] * 4


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "films.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in [("text", "y"), *ROWS]))
    return path


@pytest.fixture(scope="module")
def folder(file):
    """A run of `finetune` on a small model of four layers."""
    small = {"num_layers": 4, "num_heads": 2, "embedding_dim": 8, "hidden_dim": 16}
    folder = file.parent / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "SMALL", small | {"intermediate_dim": 32})
        assert finetune("classification", file, folder) == 0
    return folder


def finetune(task, file, output, *options):
    train = training_file(file)
    words = ["finetune", task, "--train", train, "--dev", file, "--output", output]
    words += ["--exits", "--epochs", 1, "--label-column", "y", "--max-length", 16]
    return run_command([str(word) for word in [*words, *options]])


def exits(preset, file, *options):
    words = ["exits", preset, file, "--label-column", "y", "--rounds", 1, *options]
    return run_command([str(word) for word in words])


def test_finetune_trains_exits_and_says_so(folder):
    assert AlbertClassifier.from_preset(folder / "preset").exits == 4
    assert json.loads((folder / "report.json").read_text())["settings"]["exits"]
    card = (folder / "preset" / "README.md").read_text()
    assert "Each layer has a head, so texts can leave early" in card
    assert "- exits: `True`" in card


def test_the_table_is_printed_and_written(folder, file, tmp_path, capsys):
    output, preset = tmp_path / "new" / "exits", folder / "preset"
    options = ["--patience", 1, 2, "--threshold", 0.6, "--limit", 6]
    assert exits(preset, file, *options, "--output", output) == 0
    printed = capsys.readouterr().out
    assert "6 rows; text = 'text', label = 'y'" in printed
    written = json.loads((output / "exits.json").read_text())
    assert [row["arguments"] for row in written["rows"]] == [
        *({"num_layers": n} for n in range(1, 5)),
        *({"patience": 1}, {"patience": 2}, {"threshold": 0.6}),
    ]
    assert [sum(row["texts"]) for row in written["rows"]] == [6] * 7
    for row in written["rows"]:
        assert f"{row['accuracy']:.4f}" in printed
    assert written["settings"]["dev"] == str(file)
    assert {path.name for path in output.iterdir()} == {"exits.json", "exits.png"}
    assert f"{output}/exits.png" in printed.replace("\\", "/")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--patience", 3], "With `--patience 3` no text can leave"),
        (["--tolerance", 0.1], "for a regression with `--patience`"),
        (["--text-column", "a"], "has no column 'a'"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    folder, file, tmp_path, capsys, options, message
):
    output = tmp_path / "exits"
    assert exits(folder / "preset", file, "--output", output, *options) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_model_without_exits_names_the_remedy(file, capsys):
    assert exits("albert_tiny_en_uncased", file) == 1
    error = capsys.readouterr().err
    assert "is an AlbertMaskedLM without exits" in error
    assert "keras-albert finetune classification --exits" in error


def test_what_cannot_be_written_is_said_before_the_work(file, tmp_path, capsys):
    (tmp_path / "file").touch()
    (tmp_path / "out" / "exits.png").mkdir(parents=True)
    for name, message in (("file/exits", "file is a file,"), ("out", "is a directory")):
        # The model would be missing, too.
        assert exits(tmp_path / "none", file, "--output", tmp_path / name) == 1
        assert message in capsys.readouterr().err
    assert {path.name for path in tmp_path.rglob("*")} == {"file", "out", "exits.png"}


def test_without_matplotlib_no_work_is_done(file, tmp_path, monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "matplotlib" else found(name, *rest),
    )
    # The model would be missing, too.
    assert exits(tmp_path / "none", file, "--output", tmp_path / "exits") == 1
    assert 'pip install "keras-albert[examples]"' in capsys.readouterr().err
