"""`keras-albert predict` with models of every kind."""

import csv
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from dataclasses import replace

import keras
import numpy as np
import pytest

from keras_albert.cli import predict
from keras_albert.cli.run_command import run_command
from keras_albert.tools.data_files import FileRows
from keras_albert.tools.tasks import ANSWERING
from tests.exports.served_models import TAGS, make_task

TEXTS = [
    f"{start} the {thing}, and {end}."
    for start in ("Every morning", "In 2011", "", "She paid", "\tIt rained")
    for thing in ("captain", "café", "letters in the attic" * 3)
    for end in ("sold eleven", "the answer is in the question")
]


@pytest.fixture(scope="module")
def classifier(tiny_proto):
    return make_task("Classifier", tiny_proto, labels=("bad", "très bien"))


@pytest.fixture(scope="module")
def preset(classifier, tmp_path_factory):
    path = tmp_path_factory.mktemp("preset") / "preset"
    classifier.save_to_preset(path)
    return path


@pytest.fixture(scope="module")
def expected(classifier):
    return classifier.classify(TEXTS)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    return path


def run(*arguments):
    return run_command([str(argument) for argument in arguments])


def read(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def assert_labels(answers, expected):
    assert [row["label"] for row in answers] == [row["label"] for row in expected]
    np.testing.assert_allclose(
        [row["score"] for row in answers], [row["score"] for row in expected], atol=1e-5
    )


KINDS = {
    "onnx": ("m.onnx", ["--format", "onnx"], ["onnxruntime"]),
    "onnx text": (
        "t.onnx",
        ["--format", "onnx", "--inputs", "text"],
        ["onnxruntime_extensions"],
    ),
    "litert": (
        "m.tflite",
        ["--format", "litert", "--sequence-length", "40"],
        ["ai_edge_litert", "tensorflow"],
    ),
    "saved model": ("versions", [], ["tensorflow_text"]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_answers_as_its_preset(kind, preset, file, expected, tmp_path):
    name, options, packages = KINDS[kind]
    if not all(map(importlib.util.find_spec, packages)):
        pytest.skip(f"no {packages}")
    if "tensorflow" in packages[-1] and keras.config.backend() != "torch":
        pytest.skip("the same files on every backend, as the tests of serving find")
    assert run("export", preset, tmp_path / name, *options) == 0
    output = tmp_path / "answers.jsonl"
    ids = ["--preset", preset] if kind in ("onnx", "litert") else []
    done = run(
        "predict", tmp_path / name, file, "--output", output, "--batch-size", 4, *ids
    )
    assert done == 0
    assert_labels(read(output), expected)


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl", ".txt"])
def test_a_preset_answers_files(suffix, preset, expected, tmp_path):
    path = tmp_path / f"texts{suffix}"
    with path.open("w", encoding="utf-8-sig", newline="") as rows:
        if suffix == ".csv":
            table = csv.writer(rows)
            table.writerows([["id", "Sentence"], *enumerate(TEXTS)])
        elif suffix == ".tsv":
            rows.write("review\tid\n")
            rows.writelines(f"{text.strip()}\t{n}\r\n" for n, text in enumerate(TEXTS))
        elif suffix == ".jsonl":
            rows.writelines(json.dumps({"text": text}) + "\n" for text in TEXTS)
        else:
            rows.writelines(f"{text}\n" for text in TEXTS)
    output = tmp_path / "answers.tsv"
    assert run("predict", preset, path, "--output", output) == 0
    with output.open(encoding="utf-8", newline="") as lines:
        answers = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert_labels([row | {"score": float(row["score"])} for row in answers], expected)
    assert sorted(tmp_path.iterdir()) == sorted([path, output])


def die_at(monkeypatch, call):
    """Predict for two batches at once, and stop at a call; return the rows of each."""
    monkeypatch.setattr(predict, "_BATCHES_AT_ONCE", 2)
    asked, opened = [], predict.open_predictor

    def open_one_that_dies(*arguments):
        predictor = opened(*arguments)

        def dies(columns):
            asked.append(len(columns["text"]))
            if len(asked) == call:
                raise KeyboardInterrupt
            return predictor.predict(columns)

        return replace(predictor, predict=dies)

    monkeypatch.setattr(predict, "open_predictor", open_one_that_dies)
    return asked


def test_a_run_that_dies_goes_on(preset, file, expected, tmp_path, monkeypatch, capsys):
    asked = die_at(monkeypatch, 3)
    output = tmp_path / "answers.jsonl"
    command = ["predict", preset, file, "--output", output, "--batch-size", 5]
    assert run(*command) == 130
    partial = tmp_path / "answers.jsonl.partial"
    assert len(read(partial)) == 20
    assert not output.exists()
    # As after a crash: one and a half lines are lost.
    with partial.open("r+b") as lines:
        lines.truncate(partial.stat().st_size - 50)
    whole = partial.read_bytes().count(b"\n")
    assert 0 < whole < 20

    assert run(*command[:2], file, "--to", "tsv", *command[3:]) == 1
    assert "format was 'jsonl'" in capsys.readouterr().err
    # Another batch size is the same run.
    assert run(*command[:-1], 50) == 0
    assert asked == [10, 10, 10, len(TEXTS) - whole]
    assert f"resuming after {whole} rows" in capsys.readouterr().err
    assert_labels(read(output), expected)
    assert run(*command) == 1
    assert "already exists" in capsys.readouterr().err


def test_a_run_of_another_model_does_not_go_on(
    preset, file, tmp_path, monkeypatch, capsys
):
    model, output = tmp_path / "model", tmp_path / "answers.jsonl"
    shutil.copytree(preset, model)
    die_at(monkeypatch, 2)
    command = ["predict", model, file, "--output", output, "--batch-size", 5]
    assert run(*command) == 130
    assert len(read(tmp_path / "answers.jsonl.partial")) == 10
    monkeypatch.undo()
    # Trained again, into the same directory.
    shutil.rmtree(model)
    shutil.copytree(preset, model)
    (model / "task.weights.h5").touch()
    assert run(*command) == 1
    assert "change of model was" in capsys.readouterr().err
    assert not output.exists()


def test_a_bar_shows_how_far_it_is(preset, file, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    output = tmp_path / "answers.jsonl"
    assert run("predict", preset, file, "--output", output) == 0
    shown = capsys.readouterr().err
    assert "100%" in shown
    assert f"{len(TEXTS)} rows" in shown


def test_a_file_is_read_as_it_is_answered(tmp_path):
    path = tmp_path / "long.tsv"
    path.write_text("text\n" + "x" * 10**6 + "\n" + "a\n" * 10**5)
    rows = FileRows(path)
    read = iter(rows)
    assert len(next(read)["text"]) == 10**6
    next(read)
    assert 10**6 <= rows.position < path.stat().st_size - 10**5
    assert sum(1 for _ in read) == 10**5 - 1
    assert rows.position == path.stat().st_size


def test_answers_are_printed(preset, file, expected, capfdbinary):
    assert run("predict", preset, file) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert_labels([json.loads(line) for line in lines], expected)


ROWS = {
    "MaskedLM": ({"text": "the [MASK] sold"}, {}, {"masks"}),
    "TokenClassifier": ({"text": "the captain"}, {"labels": TAGS}, {"entities"}),
    "QuestionAnswerer": (
        {"question": "Who?", "context": "the captain said"},
        {},
        {"answer", "score", "start", "end"},
    ),
    "MultipleChoice": (
        {"question": "Who?", "A": "the captain", "B": "the crew"},
        {},
        {"index", "choice", "scores"},
    ),
    "Pretrainer": ({"text": "It rained.", "text_pair": "Again."}, {}, {"score"}),
    "TextEmbedder": ({"sentence1": "It rained.", "sentence2": "a"}, {}, {"similarity"}),
}


@pytest.mark.parametrize("name", ROWS)
def test_every_task_answers(name, tiny_proto, tmp_path):
    row, arguments, outputs = ROWS[name]
    make_task(name, tiny_proto, **arguments).save_to_preset(tmp_path / "preset")
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n" + json.dumps(row) + "\n")
    output = tmp_path / "answers.jsonl"
    assert run("predict", tmp_path / "preset", path, "--output", output) == 0
    first, second = read(output)
    assert set(first) == outputs
    assert first == second


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.tsv", "id\tnumber\n1\t2\n", "no column with a usual name for a text"),
        (
            "a.jsonl",
            '{"text": "a"}\n{"text": null}\n',
            "line 2: the column 'text' contains None",
        ),
        ("a.tsv", "Text\ttext \na\tb\n", "Name it: --text-column"),
        ("a.txt", "a\nb".encode("utf-16-le"), "line 1 contains a NUL"),
        ("a.xlsx", "", "must end in one of: .tsv"),
    ],
)
def test_bad_rows_are_errors(name, content, words, preset, tmp_path, capsys):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert run("predict", preset, path) == 1
    assert words in capsys.readouterr().err


IDS = {
    "MultipleChoice": [
        {"question": "Who?", "A": "the captain", "B": "the crew", "C": ""},
        {"context": "It rained.", "question": "Who?", "choices": ["she", "he"]},
    ],
    "TextEmbedder": [{"text": "the captain"}],
    "Classifier": [{"text": "the captain"}, {"text": "a", "text_pair": "the crew"}],
}


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("kind", ["onnx", "litert"])
def test_a_model_of_ids_answers_every_form_of_a_row(
    kind, name, tiny_proto, tmp_path, capfd
):
    file, options, packages = KINDS[kind]
    if not all(map(importlib.util.find_spec, packages)):
        pytest.skip(f"no {packages}")
    if kind == "litert" and (keras.config.backend(), name) != (
        "torch",
        "MultipleChoice",
    ):
        pytest.skip("the same ids as ONNX', and the same file on every backend")
    preset, model = tmp_path / "preset", tmp_path / file
    arguments = {"labels": ("bad", "good")} if name == "Classifier" else {}
    make_task(name, tiny_proto, **arguments).save_to_preset(preset)
    assert run("export", preset, model, *options) == 0
    for number, row in enumerate(IDS[name]):
        rows = tmp_path / f"{number}.jsonl"
        rows.write_text(json.dumps(row) + "\n" + json.dumps(row) + "\n")
        answers = []
        for source in (preset, model):
            output = tmp_path / f"{number}.{source.name}.jsonl"
            ids = ["--preset", preset, "--output", output]
            capfd.readouterr()
            assert run("predict", source, rows, *ids) == 0
            # LiteRT writes a message of its own.
            assert capfd.readouterr().err == f"{output}\n"
            answers.append(read(output)[0])
        asked, found = answers
        for key in {"index", "label", "embedding"} & set(asked) & set(found):
            assert found[key] == pytest.approx(asked[key], abs=1e-5)


def test_a_model_of_ids_of_another_task_says_what_to_ask(tiny_proto, tmp_path, capsys):
    pytest.importorskip("onnxscript")
    has_rows = {name for name, how in ANSWERING.items() if how.id_inputs}
    assert has_rows == {f"Albert{name}" for name in IDS}
    name = "QuestionAnswerer"
    row, arguments, _ = ROWS[name]
    preset, model = tmp_path / "preset", tmp_path / "model.onnx"
    make_task(name, tiny_proto, **arguments).save_to_preset(preset)
    assert run("export", preset, model, "--format", "onnx") == 0
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(row) + "\n")
    capsys.readouterr()
    assert run("predict", model, rows, "--preset", preset) == 1
    error = capsys.readouterr().err
    assert f"Albert{name}" in error
    assert "--inputs text" in error


def test_a_model_for_other_programs_is_refused(tiny_proto, tmp_path, capsys):
    pytest.importorskip("onnxscript")
    preset, folder = tmp_path / "preset", tmp_path / "folder"
    make_task("TextEmbedder", tiny_proto).save_to_preset(preset)
    assert run("export", preset, folder, "--format", "transformers_onnx") == 0
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a"}\n')
    model = folder / "onnx" / "model.onnx"
    assert run("predict", model, rows, "--preset", preset) == 1
    assert "ids under transformers' names" in capsys.readouterr().err


def test_choices_keep_their_numbers(tiny_proto, tmp_path, capsys):
    make_task("MultipleChoice", tiny_proto).save_to_preset(tmp_path / "preset")
    path = tmp_path / "rows.tsv"
    path.write_text("question\tB\tA\nWho?\tthe crew\tthe captain\n")
    assert run("predict", tmp_path / "preset", path) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["choice"] == ("the captain", "the crew")[answer["index"]]
    path.write_text("question\tA\tB\nWho?\t\tthe crew\n")
    assert run("predict", tmp_path / "preset", path) == 1
    assert "line 2 has no choice 0, but a later one" in capsys.readouterr().err


def test_no_rows_give_no_answers(preset, tmp_path):
    for name in ("a.txt", "a.tsv"):
        (tmp_path / name).write_bytes(b"")
        output = tmp_path / f"{name}.jsonl"
        assert run("predict", preset, tmp_path / name, "--output", output) == 0
        assert output.read_bytes() == b""


_LITERT_WORDS = (
    "not a LiteRT model that `export` wrote"
    if importlib.util.find_spec("ai_edge_litert")
    else 'pip install "keras-albert[litert]"'
)


def test_a_model_that_cannot_be_asked_is_an_error(
    preset, file, classifier, tmp_path, capsys
):
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(b"no model")
    zipped = tmp_path / "zip.tflite"
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("labels.txt", "")
    classifier.backbone.save_to_preset(tmp_path / "backbone")
    for arguments, words in (
        (["missing.onnx", file], "there is no file missing.onnx"),
        ([damaged, file], "ONNX Runtime says"),
        ([zipped, file], _LITERT_WORDS),
        ([tmp_path / "backbone", file], "choose the class with --task"),
        ([preset, tmp_path / "missing.tsv"], "missing.tsv"),
        (
            ["albert_tiny_en_uncased", file],
            "No text has a [MASK] for the model to fill",
        ),
        (["albert_tiny_en_uncased", file], "keras-albert finetune classification"),
        (
            ["albert_tiny_en_uncased", file, "--task", "AlbertClassifier"],
            "no head of an AlbertClassifier. Train one first",
        ),
    ):
        before = sorted(tmp_path.iterdir())
        assert run("predict", *arguments, "--output", tmp_path / "answers.tsv") == 1
        assert words in capsys.readouterr().err
        assert sorted(tmp_path.iterdir()) == before
    pytest.importorskip("onnxscript")
    classifier.export(tmp_path / "ids.onnx", format="onnx")
    assert run("predict", tmp_path / "ids.onnx", file) == 1
    assert "Pass the preset" in capsys.readouterr().err


_PREDICTS = """
import sys, time
from pathlib import Path
from keras_albert.cli import predict
predict._PROGRAM = Path(sys.argv[1])
process = predict.OnnxProcess(Path("model.onnx"))
try:
    print("ready", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    process.close()
    print("stopped", file=sys.stderr)
"""
_ANSWERS = """
import sys
print('{"columns": [], "numbers": [], "metadata": {}}', flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="process groups")
def test_ctrl_c_is_not_for_the_process_of_the_model(tmp_path):
    pytest.importorskip("onnxruntime")
    start = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    (tmp_path / "program.py").write_text(start + _ANSWERS)
    with subprocess.Popen(
        [sys.executable, "-c", start + _PREDICTS, tmp_path / "program.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout.readline() == "ready\n"
        # As a terminal does it: all of the group at once.
        os.killpg(process.pid, signal.SIGINT)
        *_, last = process.stderr.read().splitlines()
    assert last == "stopped"
    assert process.returncode == 0
