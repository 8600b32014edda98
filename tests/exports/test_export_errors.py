"""Errors that all export formats share, and the files left after a failure."""

import importlib.util
import inspect
import json
import resource
import stat
import sys
from pathlib import Path
from typing import get_args

import keras
import pytest

from keras_albert import AlbertBackbone, AlbertClassifier
from keras_albert.exports.saved_model import export as saved_model
from keras_albert.tasks.table import WRITERS, export_writer
from keras_albert.tasks.task import AlbertTask
from tests.exports.served_models import make_task
from tests.warm_python.start import REAL_PYTHON

# The path that each format writes, and the package that it requires.
FORMATS = {
    "tf_saved_model": ("model/1", "tensorflow_text"),
    "onnx": ("model.onnx", "onnxscript"),
    "litert": ("model.tflite", "tensorflow"),
}
is_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="/sys and limits of a file's size"
)


@pytest.fixture(scope="module")
def tasks(tiny_proto):
    made = {
        "classifier": make_task("Classifier", tiny_proto, labels=("a", "b", "c")),
        "regression": make_task("Classifier", tiny_proto, num_classes=1),
        "headless": make_task("Classifier", tiny_proto, num_classes=2),
        "truncating": make_task("Classifier", tiny_proto, num_classes=2),
        "rounded": make_task("Classifier", tiny_proto, num_classes=2),
        "reader": make_task("QuestionAnswerer", tiny_proto),
        "pretrainer": make_task("Pretrainer", tiny_proto),
        "tagger": make_task(
            "TokenClassifier", tiny_proto, lengths={"stride": 30}, num_classes=2
        ),
    }
    made["headless"].preprocessor = None
    made["truncating"].preprocessor.tokenizer.sequence_length = 5
    made["rounded"].quantize("int4")
    return made


@pytest.fixture(scope="module")
def classifier(tasks):
    return tasks["classifier"]


def contents(path):
    return {p: p.is_file() and p.read_bytes() for p in path.rglob("*")}


@pytest.fixture(params=FORMATS)
def kind(request):
    if importlib.util.find_spec(FORMATS[request.param][1]) is None:
        pytest.skip("needs its package")
    return request.param


@pytest.fixture
def export(kind, tmp_path):
    """Export to an existing path, or to a new directory."""

    def run(is_new, task):
        path = tmp_path / ("new/folder" if is_new else "old") / "model"
        if kind == "tf_saved_model":
            task.export(path)
        else:
            path = path.with_suffix(f".{kind}")
            task.export(path, format=kind, overwrite=True)

    old = tmp_path / "old"
    (old / "model" / "1").mkdir(parents=True)
    (old / "model" / "1" / "saved_model.pb").write_text("a server has it")
    (old / f"model.{kind}").write_text("mine")
    return run


@pytest.fixture
def python(tmp_path, monkeypatch):
    """Replace the interpreter that runs the writer by a script."""

    def put(script):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(sys, "executable", str(path))

    return put


@pytest.fixture
def assert_leaves_what_was(export, classifier, tmp_path):
    def fails(error, message, task=classifier, places=(False, True)):
        before = contents(tmp_path)
        for is_new in places:
            with pytest.raises(error, match=message):
                export(is_new, task)
            assert contents(tmp_path) == before

    return fails


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'no luck' >&2\nexit 3", r"with 3\. Nothing was written\. .*:\nno luck"),
        ("kill -9 $$", r"was killed by SIGKILL, .* memory.*\. Nothing was written"),
    ],
    ids=["failed", "killed"],
)
def test_a_writer_that_ends(kind, script, message, python, assert_leaves_what_was):
    if kind == "onnx":
        pytest.skip("has no process of its own")
    python(script)
    assert_leaves_what_was(RuntimeError, message)


@is_linux
def test_a_disk_that_is_full(kind, python, assert_leaves_what_was):
    if kind != "onnx":
        # A limit of a few blocks per file.
        python(f'ulimit -f 8\nexec "{REAL_PYTHON}" "$@"')
        # One place each: the process imports for longer than it writes.
        assert_leaves_what_was(OSError, "File too large", places=[kind == "litert"])
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        assert_leaves_what_was(OSError, "File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@is_linux
def test_a_place_that_may_not_be_written_is_named(kind, classifier):
    name = FORMATS[kind][0].removesuffix("/1")
    with pytest.raises(PermissionError, match="/sys/"):
        classifier.export(f"/sys/{name}", format=kind)


def test_a_task_of_ones_own_is_refused(kind, classifier, assert_leaves_what_was):
    class Mine(type(classifier)):
        """A subclass, which may compute different outputs."""

    mine = Mine.from_config(classifier.get_config())
    message = r"Mine cannot be exported.*AlbertClassifier"
    assert_leaves_what_was(ValueError, message, mine)


def test_without_its_package_it_names_it(kind, assert_leaves_what_was, monkeypatch):
    find, package = importlib.util.find_spec, FORMATS[kind][1]
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == package else find(name, *rest),
    )
    message = rf"needs {package}, which cannot be imported\. Install: pip install \""
    assert_leaves_what_was(ImportError, message)


REFUSED = [
    ("pdf", "classifier", {}, r"one of 'tf_saved_model', .* format='pdf'"),
    ("tf_saved_model", "headless", {}, r"no preprocessor\. Build it with one"),
    ("tf_saved_model", "truncating", {}, r"them to 5 tokens\. Build it without"),
    ("tf_saved_model", "classifier", {"top_k": 4}, "at most 3. .* top_k=4"),
    ("tf_saved_model", "classifier", {"top_k": True}, "Received: top_k=True"),
    ("tf_saved_model", "regression", {"top_k": 1}, "for models that rank"),
    ("tf_saved_model", "reader", {"top_k": 2}, "not for this AlbertQuestionAnswerer"),
    ("tf_saved_model", "classifier", {"max_length": 41}, "at most 40.*=41"),
    ("tf_saved_model", "classifier", {"max_length": 4}, "at least 5.*max_length=4"),
    ("tf_saved_model", "classifier", {"max_length": "9"}, "Received: max_length='9'"),
    ("tf_saved_model", "tagger", {"max_length": 20}, "from 1 to 18, .*: stride=30"),
    ("tf_saved_model", "classifier", {"pairs": True}, "has no option `pairs`"),
    ("onnx", "classifier", {"inputs": "strings"}, "one of 'tokens', 'text'"),
    ("onnx", "classifier", {"quantize": "int4"}, "one of None, 'int8'"),
    ("onnx", "classifier", {"pairs": True}, "inputs='tokens'"),
    ("onnx", "pretrainer", {"inputs": "text", "pairs": True}, "AlbertPretrainer"),
    ("onnx", "headless", {"inputs": "text"}, "no preprocessor"),
    ("onnx", "truncating", {"inputs": "text"}, "them to 5 tokens"),
    ("onnx", "rounded", {}, "is quantized to 'int4', and weights in"),
    ("litert", "classifier", {"quantize": "int8"}, "one of None, 'dynamic_int8'"),
    ("litert", "classifier", {"sequence_length": 0}, "at least 1"),
    ("litert", "classifier", {"sequence_length": 41}, "at most 40"),
    ("mediapipe", "classifier", {}, "by WordPiece"),
    ("mediapipe", "tagger", {}, "one label per text"),
    ("litert", "rounded", {}, "Export the model before it is quantized"),
]


@pytest.mark.parametrize(("format_", "task", "arguments", "message"), REFUSED)
def test_refuses_what_cannot_be(tasks, format_, task, arguments, message, tmp_path):
    package = FORMATS.get(format_, ("", "keras"))[1]
    pytest.importorskip(package)
    path = tmp_path / FORMATS.get(format_, ("x",))[0].removesuffix("/1")
    with pytest.raises(ValueError, match=message):
        tasks[task].export(path, format=format_, **arguments)
    assert not list(tmp_path.iterdir())


def test_export_shows_all_formats_and_options():
    shown = inspect.signature(AlbertTask.export).parameters
    (formats, _) = get_args(shown["format"].annotation)
    assert set(get_args(formats)) == set(WRITERS)
    known = [inspect.signature(export_writer(name)).parameters for name in WRITERS]
    options = {option for each in known for option in list(each)[2:]}
    assert options == set(shown) - {"self", "filepath", "format"}


@keras.saving.register_keras_serializable("tests")
def steep_swish(x):
    return x * keras.ops.sigmoid(2.0 * x)


@pytest.mark.parametrize("layer", ["backbone", "pooler", "head"])
def test_an_activation_of_ones_own_is_refused(
    layer, tiny_proto, assert_leaves_what_was
):
    options = {"pooler_activation": steep_swish} if layer == "pooler" else {}
    if layer == "backbone":
        options["activation"] = steep_swish
    made = make_task("Classifier", tiny_proto, num_classes=2)
    sizes = made.backbone.get_config() | options
    head = steep_swish if layer == "head" else None
    task = AlbertClassifier(
        AlbertBackbone.from_config(sizes), 2, made.preprocessor, activation=head
    )
    assert_leaves_what_was(ValueError, "steep_swish", task)


def test_a_file_is_no_directory_of_versions(classifier, tmp_path):
    pytest.importorskip("tensorflow_text")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError, match="is a file"):
        classifier.export(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.fixture
def versions(tmp_path):
    """A directory with a version that a server may be using."""
    pytest.importorskip("tensorflow_text")
    path = tmp_path / "model"
    (path / "1").mkdir(parents=True)
    (path / "1" / "saved_model.pb").write_text("served")
    return path


def test_a_version_that_is_there_stays(classifier, versions):
    before = contents(versions)
    with pytest.raises(FileExistsError, match="a server may be using it"):
        classifier.export(versions, version=1)
    for version in (-1, 2**63, True, "2"):
        with pytest.raises(ValueError, match=f"Received: version={version!r}"):
            classifier.export(versions, version=version)
    assert contents(versions) == before


def test_version_0_is_one_that_a_server_takes(classifier, versions, monkeypatch):
    monkeypatch.setattr(saved_model, "run_in_tensorflow", lambda *_: None)
    assert classifier.export(versions, version=0) == versions / "0"
    # The next one is after the highest.
    assert classifier.export(versions) == versions / "2"


def test_a_version_of_another_process_stays(classifier, versions, monkeypatch):
    """If both choose the same number, the files of two exports must not mix."""

    def write(what, program, preset, directory, options):
        # A server loads every directory whose name is a number, complete or not.
        seen = [path.name for path in versions.iterdir()]
        assert [name for name in seen if name.isdigit()] == ["1"]
        Path(directory, "ours").touch()
        (versions / "2").mkdir()

    monkeypatch.setattr(saved_model, "run_in_tensorflow", write)
    with pytest.raises(FileExistsError, match="model/2 exists, and a server"):
        classifier.export(versions)
    assert sorted(path.name for path in versions.iterdir()) == ["1", "2"]
    assert not list((versions / "2").iterdir())


def test_how_it_was_trained_is_written_down(tiny_proto, tmp_path, monkeypatch):
    pytest.importorskip("tensorflow_text")
    found = {}

    def write(what, program, preset, directory, options):
        found.update(json.loads(options)["manifest"])

    monkeypatch.setattr(saved_model, "run_in_tensorflow", write)
    task = make_task("Classifier", tiny_proto, num_classes=2)
    task.fit(["a", "b"] * 3, [0, 1] * 3, batch_size=2, epochs=2, verbose=0)
    task.export(tmp_path / "model")
    assert found["trained"] == {
        "backend": keras.config.backend(),
        "dtype": "float32",
        "from_loaded_weights": False,
        "optimizer": task.optimizer.name,
        "steps": 6,
    }
