"""Files that are damaged or hostile, and paths that are none."""

import json
import os
import struct
import zipfile
from pathlib import Path

import pytest

from keras_albert import AlbertClassifier, AlbertTokenizer
from keras_albert.checkpoints import convert_checkpoint
from keras_albert.exports import verify
from keras_albert.pretraining import (
    PretrainingConfig,
    PretrainingData,
    prepare_examples,
)
from keras_albert.text import read_conll, read_squad, train_vocabulary
from keras_albert.tools.data_files import FileRows
from keras_albert.training.run_folder import RunFolder
from keras_albert.utils.atomic_files import atomic_file
from keras_albert.utils.reading import read_bytes, read_json, reading
from keras_albert.utils.remote import local_path

TINY = "albert_tiny_en_uncased"


@pytest.fixture(scope="module")
def classifier():
    return AlbertClassifier.from_preset(TINY, num_classes=2, num_layers=1)


def enter(block):
    with block:
        pass


@pytest.mark.parametrize("name", ["hf://u/m", "s3://b/p::a", Path("ftp://b/p")])
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
    with pytest.raises(ValueError, match=r"://.* is not a path on this machine"):
        use(name, classifier)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["ftp://b/p", Path("file://b/p")])
def test_another_scheme_is_refused_though_a_folder_has_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(name).mkdir(parents=True)
    with pytest.raises(ValueError, match="is not a path on this machine"):
        AlbertClassifier.from_preset(name, num_classes=2)


@pytest.mark.parametrize("name", ["other://b/p", Path("other://b/p")])
def test_an_address_that_no_file_system_of_beam_reads(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text("One.\nTwo.\n")
    with pytest.raises(ValueError, match=r"Unable to get filesystem.*other://b/p"):
        prepare_examples("a.txt", name, TINY)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("name", ["a/b", "/a", r"C:\a", "C:/a", "a:b", "gs", ""])
def test_local_paths_stay(name):
    assert local_path(name) == Path(name)


@pytest.mark.parametrize(
    "error",
    [
        KeyError("hidden_size"),
        IndexError("list index out of range"),
        TypeError("'int' object is not iterable"),
        AttributeError("'list' object has no attribute 'items'"),
        RuntimeError("Unable to get link info (addr overflow)"),
        OSError("Unable to open file (truncated file)"),
        RecursionError("maximum recursion depth exceeded"),
        struct.error("unpack requires a buffer of 4 bytes"),
        zipfile.BadZipFile("File is not a zip file"),
        json.JSONDecodeError("Expecting value", "x", 0),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        OverflowError("int too large"),
        AssertionError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_any_error_becomes_one_that_names_the_file_and_the_remedy(tmp_path, error):
    path = tmp_path / "a.json"
    path.write_text("1234")
    again = "Save it again."
    with pytest.raises(ValueError, match="is damaged") as caught, reading(path, again):
        raise error
    message = str(caught.value)
    assert message.startswith(f"{path} (4 bytes) ")
    assert message.endswith(again)
    assert str(error) in message
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "error", [MemoryError(), KeyboardInterrupt(), SystemExit(1), ImportError("torch")]
)
def test_what_is_not_the_file_is_left_alone(error):
    with pytest.raises(type(error)) as caught, reading("a.json"):
        raise error
    assert caught.value is error


def test_an_error_that_names_the_file_is_left_alone(tmp_path):
    path = tmp_path / "a.json"
    with pytest.raises(FileNotFoundError), reading(path):
        path.read_text()
    with pytest.raises(ValueError, match=r"^in .*a\.json$"), reading(path):
        raise ValueError(f"in {path}")
    # `reading` of a directory around `reading` of its file.
    damaged = pytest.raises(ValueError, match=r"a\.json is damaged")
    with damaged, reading(tmp_path), reading(path):
        raise KeyError("x")


def test_a_long_reason_is_cut():
    with pytest.raises(ValueError, match="is damaged") as caught, reading("a.json"):
        raise KeyError("x" * 10**6)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "JSONDecodeError"),
        (b"{", "JSONDecodeError"),
        (b"\xff\xfe{}", "UnicodeDecodeError"),
        (b"[]", "it contains list, but must contain an object"),
        (b"3", "it contains int, but must contain an object"),
        (b"[" * 200_000, "RecursionError"),
        (b'{"a": ' * 200_000, "RecursionError"),
        (b'{"a": ' + b"1" * 5000 + b"}", "integer string conversion"),
        (b'{"a": 1, "b": {"c": 2, "c": 3}}', "it has 'c' twice"),
        (b" " * (2**23 + 1), "has more than 8,388,608 bytes"),
    ],
)
def test_json_of_another_kind_is_refused(tmp_path, content, message):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_json(path)
    assert str(path) in str(caught.value)
    assert "Copy or download it again." in str(caught.value)


def test_json_is_read(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"a": ["é", 1]}', encoding="utf-8")
    assert read_json(path) == read_json(str(path)) == {"a": ["é", 1]}
    path.write_text("[1]")
    assert read_json(path, list) == [1]
    with pytest.raises(ValueError, match="it contains list"):
        read_json(path)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "absent.json")


def test_what_never_ends_is_not_read(tmp_path):
    (tmp_path / "device").symlink_to(os.devnull)
    os.mkfifo(tmp_path / "pipe")
    for name in ("device", "pipe"):
        with pytest.raises(ValueError, match=f"{name} is not a regular file"):
            read_json(tmp_path / name)


def test_a_file_may_have_as_many_bytes_as_that(tmp_path):
    path = tmp_path / "vocabulary"
    path.write_bytes(b"1234")
    assert read_bytes(path, 4) == b"1234"
    with pytest.raises(ValueError, match="vocabulary has more than 3 bytes"):
        read_bytes(path, 3)
