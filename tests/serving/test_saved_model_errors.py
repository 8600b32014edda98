"""What the SavedModel export refuses, and what it leaves behind when it fails."""

import importlib.util
import resource
import stat
import sys

import keras
import pytest

from tests.serving.served_models import make_task

pytest.importorskip("tensorflow_text")


@pytest.fixture(scope="module")
def classifier(tiny_proto):
    return make_task("Classifier", tiny_proto, labels=("bad", "good", "dull"))


@pytest.fixture
def versions(tmp_path):
    """A directory with a version that a server may be using."""
    path = tmp_path / "model"
    (path / "1").mkdir(parents=True)
    (path / "1" / "saved_model.pb").write_text("served")
    return path


def contents(path):
    return {p: p.is_file() and p.read_bytes() for p in path.rglob("*")}


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (
            "echo 'no space left, says the disk' >&2\nexit 3",
            r"ended with 3\. Nothing was written\. It said:\n.*no space left",
        ),
        ("kill -9 $$", r"was killed by SIGKILL, .* memory.*\. Nothing was written"),
    ],
    ids=["failed", "killed"],
)
def test_a_writer_that_ends_leaves_what_was(
    classifier, versions, tmp_path, monkeypatch, script, message
):
    broken = tmp_path / "python"
    broken.write_text(f"#!/bin/sh\n{script}\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(broken))
    before = contents(tmp_path)
    for path in (versions, tmp_path / "new"):
        with pytest.raises(RuntimeError, match=message):
            classifier.export(path)
    assert contents(tmp_path) == before


@pytest.mark.skipif(
    keras.config.backend() != "torch", reason="the writer is the same process"
)
def test_a_disk_that_is_full_leaves_what_was(classifier, versions, tmp_path):
    before = contents(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # The preset is smaller than this, the graph is larger.
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    try:
        with pytest.raises(RuntimeError, match=r"(?s)Nothing was written.*too large"):
            classifier.export(versions)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert contents(tmp_path) == before


def test_a_disk_that_is_full_here_is_named(classifier, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device", "/tmp/x")  # noqa: S108

    monkeypatch.setattr(type(classifier), "save_to_preset", fail)
    with pytest.raises(OSError, match="No space left on device: nothing was written"):
        classifier.export(tmp_path / "new")
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="nobody may write below /sys")
def test_a_place_that_may_not_be_written_is_named(classifier):
    with pytest.raises(PermissionError, match=r"/sys/model/1\. Name a place that you"):
        classifier.export("/sys/model")


def test_a_version_that_is_there_stays(classifier, versions):
    before = contents(versions)
    with pytest.raises(FileExistsError, match="a server may be using it"):
        classifier.export(versions, version=1)
    with pytest.raises(ValueError, match="Received: version=0"):
        classifier.export(versions, version=0)
    assert contents(versions) == before


def test_a_task_of_ones_own_is_refused(classifier, tmp_path):
    class Mine(type(classifier)):
        """What it answers is not known."""

    mine = Mine.from_config(classifier.get_config())
    with pytest.raises(ValueError, match=r"What Mine should answer.*AlbertClassifier"):
        mine.export(tmp_path / "mine")


def test_options_that_do_not_fit_are_refused(classifier, tiny_proto, tmp_path):
    regression = make_task("Classifier", tiny_proto, num_classes=1)
    reader = make_task("QuestionAnswerer", tiny_proto)
    for task, arguments, message in (
        (classifier, {"top_k": 4}, "from 1 to 3: the model has no more.*top_k=4"),
        (classifier, {"top_k": True}, "Received: top_k=True"),
        (regression, {"top_k": 1}, "A regression has no list of likeliest answers"),
        (reader, {"top_k": 2}, "AlbertQuestionAnswerer has no list .*Leave out"),
        (classifier, {"max_length": 41}, "from 5 to 40, .*Received: max_length=41"),
        (classifier, {"max_length": 4}, "Received: max_length=4"),
        (classifier, {"max_length": "9"}, "Received: max_length='9'"),
    ):
        with pytest.raises(ValueError, match=message):
            task.export(tmp_path / "x", **arguments)
    assert not list(tmp_path.iterdir())


def test_refuses_what_it_cannot_write(classifier, tiny_proto, tmp_path):
    with pytest.raises(ValueError, match=r"no export format 'pdf'.*tf_saved_model"):
        classifier.export(tmp_path / "x", format="pdf")
    headless = make_task("Classifier", tiny_proto, num_classes=2)
    headless.preprocessor = None
    with pytest.raises(ValueError, match=r"no preprocessor\. Build it with one"):
        headless.export(tmp_path / "x")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError, match="is a file"):
        classifier.export(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_without_tensorflow_it_says_what_to_install(classifier, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "tensorflow_text" else find(name, *rest),
    )
    with pytest.raises(ImportError, match="needs tensorflow_text, which cannot be"):
        classifier.export(tmp_path / "x")
    assert not (tmp_path / "x").exists()
