"""Errors that all export formats share, and the files left after a failure."""

import importlib.util
import re
import resource
import stat
import sys

import pytest

from tests.serving.served_models import make_task
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
def classifier(tiny_proto):
    return make_task("Classifier", tiny_proto, labels=("bad", "good", "dull"))


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
        def contents():
            return {p: p.is_file() and p.read_bytes() for p in tmp_path.rglob("*")}

        before = contents()
        for is_new in places:
            with pytest.raises(error, match=message):
                export(is_new, task)
            assert contents() == before

    return fails


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo 'out of luck' >&2\nexit 3",
            r"ended with 3\. Nothing was written\. Its error output:\nout of luck",
        ),
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
    message = r"File too large: nothing was written to .*model.*\. Name a place"
    if kind != "onnx":
        # A limit of a few blocks per file.
        python(f'ulimit -f 8\nexec "{REAL_PYTHON}" "$@"')
        # One place each: the process imports for longer than it writes.
        assert_leaves_what_was(OSError, message, places=[kind == "litert"])
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        assert_leaves_what_was(OSError, message)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_here(
    kind, classifier, assert_leaves_what_was, monkeypatch
):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr(type(classifier), "save_to_preset", fail)
    monkeypatch.setattr("pathlib.Path.replace", fail)
    assert_leaves_what_was(OSError, "No space left on device: nothing was written to")


@is_linux
def test_a_place_that_may_not_be_written_is_named(kind, classifier):
    name = FORMATS[kind][0]
    message = rf"written to /sys/{re.escape(name)}\. Name a place that you"
    with pytest.raises(PermissionError, match=message):
        classifier.export(f"/sys/{name.removesuffix('/1')}", format=kind)


def test_a_task_of_ones_own_is_refused(kind, classifier, assert_leaves_what_was):
    class Mine(type(classifier)):
        """A subclass, which may compute different outputs."""

    mine = Mine.from_config(classifier.get_config())
    message = r"Mine cannot be exported.*AlbertClassifier"
    assert_leaves_what_was(ValueError, message, mine)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("model", {}), ("model.onnx", {"format": "onnx", "inputs": "text"})],
    ids=["saved_model", "onnx"],
)
def test_a_tokenizer_that_cuts_texts_is_refused(
    classifier, name, arguments, tmp_path, monkeypatch
):
    monkeypatch.setattr(classifier.preprocessor.tokenizer, "sequence_length", 5)
    with pytest.raises(ValueError, match=r"them to 5 tokens\. Build it without"):
        classifier.export(tmp_path / name, **arguments)
    assert not list(tmp_path.iterdir())


def test_without_its_package_it_says_what_to_install(
    kind, assert_leaves_what_was, monkeypatch
):
    find, package = importlib.util.find_spec, FORMATS[kind][1]
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == package else find(name, *rest),
    )
    message = rf"needs {package}, which cannot be imported\. Install: pip install \""
    assert_leaves_what_was(ImportError, message)
