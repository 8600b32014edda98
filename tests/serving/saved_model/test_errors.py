"""Errors of the SavedModel export, besides those that all formats share."""

import json
from pathlib import Path

import keras
import pytest

from keras_albert.serving.saved_model import export
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


def test_a_version_that_is_there_stays(classifier, versions):
    before = contents(versions)
    with pytest.raises(FileExistsError, match="a server may be using it"):
        classifier.export(versions, version=1)
    for version in (-1, 2**63, True, "2"):
        with pytest.raises(ValueError, match=f"Received: version={version!r}"):
            classifier.export(versions, version=version)
    assert contents(versions) == before


def test_version_0_is_one_that_a_server_takes(classifier, versions, monkeypatch):
    monkeypatch.setattr(
        "keras_albert.serving.saved_model.export.run_in_tensorflow", lambda *_: None
    )
    assert classifier.export(versions, version=0) == versions / "0"
    # The next one is after the highest.
    assert classifier.export(versions) == versions / "2"


def test_a_version_that_another_process_wrote_meanwhile_stays(
    classifier, versions, monkeypatch
):
    """If both choose the same number, the files of two exports must not mix."""

    def write(what, program, preset, directory, options):
        Path(directory, "ours").touch()
        (versions / "2").mkdir()

    monkeypatch.setattr(export, "run_in_tensorflow", write)
    with pytest.raises(FileExistsError, match="model/2 exists, and a server"):
        classifier.export(versions)
    assert sorted(path.name for path in versions.iterdir()) == ["1", "2"]
    assert not list((versions / "2").iterdir())


def test_a_version_is_built_where_no_server_looks(classifier, versions, monkeypatch):
    """A server loads every directory whose name is a number, complete or not."""
    seen = []

    def write(what, program, preset, directory, options):
        seen.extend(path.name for path in versions.iterdir())

    monkeypatch.setattr(export, "run_in_tensorflow", write)
    classifier.export(versions)
    assert "1" in seen
    assert not [name for name in seen if name.isdigit() and name != "1"]
    assert sorted(path.name for path in versions.iterdir()) == ["1", "2"]


def test_how_it_was_trained_is_written_down(tiny_proto, tmp_path, monkeypatch):
    found = {}

    def write(what, program, preset, directory, options):
        found.update(json.loads(options)["manifest"])

    monkeypatch.setattr(export, "run_in_tensorflow", write)
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


def test_options_that_do_not_fit_are_refused(classifier, tiny_proto, tmp_path):
    regression = make_task("Classifier", tiny_proto, num_classes=1)
    reader = make_task("QuestionAnswerer", tiny_proto)
    tagger = make_task(
        "TokenClassifier", tiny_proto, lengths={"stride": 30}, num_classes=2
    )
    for task, arguments, message in (
        (classifier, {"top_k": 4}, "from 1 to 3: the model has no more.*top_k=4"),
        (classifier, {"top_k": True}, "Received: top_k=True"),
        (regression, {"top_k": 1}, "A regression does not rank its predictions"),
        (reader, {"top_k": 2}, "AlbertQuestionAnswerer does not rank .*Leave out"),
        (classifier, {"max_length": 41}, "from 5 to 40, .*Received: max_length=41"),
        (classifier, {"max_length": 4}, "Received: max_length=4"),
        (classifier, {"max_length": "9"}, "Received: max_length='9'"),
        (tagger, {"max_length": 20}, "from 1 to 18, .*Received: stride=30"),
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
