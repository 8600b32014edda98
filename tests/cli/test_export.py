"""`keras-albert export`, and `predict` with the exported files."""

import importlib.util
import json

import pytest

from keras_albert.cli.run_command import run_command
from tests.exports.served_models import LONG, TAGS, balance, make_task

ROW = {
    # All of its windows differ: between equal ones, rounding would decide.
    "context": LONG,
    "question": "What _ when the wind comes in?",
    "A": "the lamps go out",
    "B": "bread",
}
TASKS = {
    "TokenClassifier": {"labels": TAGS},
    "QuestionAnswerer": {},
    "MultipleChoice": {},
    "TextEmbedder": {},
}


def run(*arguments):
    return run_command([str(argument) for argument in arguments])


def need(*packages):
    if not all(map(importlib.util.find_spec, packages)):
        pytest.skip(f"no {packages}")


@pytest.fixture(scope="module")
def preset(tiny_proto, tmp_path_factory):
    path = tmp_path_factory.mktemp("preset") / "preset"
    make_task("Classifier", tiny_proto, labels=("bad", "good")).save_to_preset(path)
    return path


def test_the_suffix_is_the_format(preset, tmp_path, capsys):
    path = tmp_path / "a.onnx"
    # An option of the format that was not named.
    assert run("export", preset, path, "--top-k", 1) == 1
    assert "--top-k: onnx has no option `top_k`" in capsys.readouterr().err
    assert run("export", preset, path, "--format", "litert") == 1
    error = capsys.readouterr().err
    assert "named like a file of the format 'onnx', but would be written" in error
    assert "Pass format='onnx'" in error
    assert not path.exists()


def test_an_option_of_another_format_is_an_error(preset, tmp_path, capsys):
    assert run("export", preset, tmp_path / "a", "--quantize", "int8") == 1
    assert (
        "--quantize: tf_saved_model has no option `quantize`" in capsys.readouterr().err
    )
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_matrices_are_stored_as_asked(quantize, preset, tmp_path, capsys):
    need("onnx", "onnxscript")
    import onnx

    options = [] if quantize is None else ["--quantize", quantize]
    path = tmp_path / "model.onnx"
    assert run("export", preset, path, "--format", "onnx", *options) == 0
    assert f"{path}: AlbertClassifier, 0." in capsys.readouterr().out
    weights = onnx.load(path).graph.initializer
    kinds = {weight.data_type for weight in weights if len(weight.dims) == 2}
    assert (onnx.TensorProto.INT8 in kinds) == (quantize == "int8")
    assert run("export", preset, path, "--format", "onnx") == 1
    assert "or pass --overwrite" in capsys.readouterr().err
    assert run("export", preset, path, "--format", "onnx", "--overwrite") == 0


@pytest.mark.parametrize("name", TASKS)
def test_every_task_that_reads_texts_answers_alike(name, tiny_proto, tmp_path):
    """Compares the outputs that both the file and the preset have."""
    need("onnxscript", "onnxruntime", "onnxruntime_extensions")
    task = make_task(name, tiny_proto, **TASKS[name])
    if name == "TokenClassifier":
        balance(task, task.output_dense.bias, [ROW["context"]])
    task.save_to_preset(tmp_path / "preset")
    model, rows = tmp_path / "model.onnx", tmp_path / "rows.jsonl"
    rows.write_text(json.dumps(ROW) + "\n" + json.dumps(ROW) + "\n")
    inputs = ["--format", "onnx", "--inputs", "text"]
    assert run("export", tmp_path / "preset", model, *inputs) == 0
    columns = ["--text-column", "context"]
    answers = []
    for source in (tmp_path / "preset", model):
        output = tmp_path / f"{source.name}.jsonl"
        assert run("predict", source, rows, *columns, "--output", output) == 0
        answers.append(
            [json.loads(line) for line in output.read_text("utf-8").splitlines()]
        )
    asked, found = answers
    assert len(asked) == len(found) == 2
    for row, answer in zip(asked, found, strict=True):
        assert_alike(name, row, answer)


def assert_alike(name, asked, found):
    if name == "TokenClassifier":
        keys = ("label", "score", "start", "end")
        asked = {key: [each[key] for each in asked["entities"]] for key in keys}
        assert found["count"] == len(asked["label"]) > 0
    same = set(asked) & set(found)
    assert len(same) > (name != "TextEmbedder")
    for key in same:
        if isinstance(asked[key], str | int) or key == "label":
            assert found[key] == asked[key]
        else:
            assert found[key] == pytest.approx(asked[key], abs=1e-5)


def test_a_damaged_saved_model_is_named(tmp_path, capsys):
    need("tensorflow", "tensorflow_text")
    version = tmp_path / "model" / "1"
    version.mkdir(parents=True)
    (version / "saved_model.pb").write_bytes(b"no model")
    (tmp_path / "texts.txt").write_text("a\n")
    assert run("predict", tmp_path / "model", tmp_path / "texts.txt") == 1
    error = capsys.readouterr().err
    assert f"TensorFlow cannot load {version}" in error
    assert "Copy or export it again" in error
    # The highest version is the one that a server takes, also an incomplete one.
    newest = tmp_path / "model" / "2"
    newest.mkdir()
    assert run("predict", tmp_path / "model", tmp_path / "texts.txt") == 1
    assert f"TensorFlow cannot load {newest}" in capsys.readouterr().err
    assert run("verify", tmp_path / "model") == 1
    assert f"{newest} contains no `saved_model.pb`" in capsys.readouterr().err


def test_options_of_other_formats(preset, tmp_path, capsys):
    options = ["--format", "web_page", "--top-k", 1]
    assert run("export", preset, tmp_path / "b", *options) == 1
    assert "--top-k: web_page has no option `top_k`. It has: `javascript`" in shown(
        capsys
    )
    assert run("export", preset, tmp_path / "b.onnx", *options[:2]) == 1
    assert "named like a file of the format 'onnx'" in shown(capsys)


def shown(capsys):
    return " ".join(capsys.readouterr().err.split())
