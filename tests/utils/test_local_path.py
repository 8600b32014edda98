"""No address of a remote storage becomes a local folder."""

from pathlib import Path

import pytest

from keras_albert import AlbertClassifier, AlbertTokenizer
from keras_albert.commands.files import FileRows
from keras_albert.conversion import convert_checkpoint
from keras_albert.pretraining import (
    PretrainingConfig,
    PretrainingData,
    prepare_examples,
)
from keras_albert.serving import verify
from keras_albert.text import read_conll, read_squad, train_vocabulary
from keras_albert.training.run_folder import RunFolder
from keras_albert.utils.atomic_file import atomic_file
from keras_albert.utils.local_path import local_path

TINY = "albert_tiny_en_uncased"


@pytest.fixture(scope="module")
def classifier():
    return AlbertClassifier.from_preset(TINY, num_classes=2, num_layers=1)


def enter(block):
    with block:
        pass


@pytest.mark.parametrize("name", ["gs://b/p", "s3://b/p", "hf://u/m", Path("az://b/p")])
@pytest.mark.parametrize(
    "use",
    [
        lambda path, task: task.save_to_preset(path),
        lambda path, task: task.preprocessor.tokenizer.save_to_preset(path),
        lambda path, task: task.export(path),
        lambda path, task: task.export(path, format="onnx"),
        lambda path, task: task.export_to_transformers(path),
        lambda path, task: convert_checkpoint(TINY, path, "keras-hub"),
        lambda path, task: PretrainingConfig(data="data", output=str(path)),
        lambda path, task: PretrainingConfig(data=str(path), output="run"),
        lambda path, task: PretrainingData(path),
        lambda path, task: enter(RunFolder(Path(path)).locked()),
        lambda path, task: enter(atomic_file(path)),
        lambda path, task: train_vocabulary(["a"] * 9, output_path=path),
        lambda path, task: train_vocabulary(files=[path]),
        lambda path, task: AlbertTokenizer(path),
        lambda path, task: FileRows(Path(path)),
        lambda path, task: read_squad(path),
        lambda path, task: read_conll(path),
        lambda path, task: verify(path),
    ],
)
def test_it_is_refused(use, name, classifier, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"://.* is not a path of this machine"):
        use(name, classifier)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["s3://b/p", Path("gs://b/p")])
def test_a_preset_of_another_scheme_is_refused_though_a_folder_has_its_name(
    name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path(name).mkdir(parents=True)
    with pytest.raises(ValueError, match="is not a path of this machine"):
        AlbertClassifier.from_preset(name, num_classes=2)


def test_beam_takes_addresses_as_strings_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("One.\nTwo.\n")
    with pytest.raises(ValueError, match="gs://b/p is not a path of this machine"):
        prepare_examples("a.txt", Path("gs://b/p"), TINY)
    # A string that no installed file system of Beam reads.
    with pytest.raises(ValueError, match="Unable to get filesystem"):
        prepare_examples("a.txt", "other://b/p", TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("name", ["a/b", "/a", r"C:\a", "C:/a", "a:b", "gs", ""])
def test_local_paths_stay(name):
    assert local_path(name) == Path(name)
