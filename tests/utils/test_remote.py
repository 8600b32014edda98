"""Presets, exports, data and runs in a store: in memory, and a S3 on this machine."""

import importlib.util
import io
import json
import re
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from keras_albert import (
    AlbertBackbone,
    AlbertClassifier,
    AlbertClassifierPreprocessor,
    AlbertTokenizer,
)
from keras_albert.checkpoints import convert_checkpoint
from keras_albert.cli import finetune
from keras_albert.cli.run_command import run_command
from keras_albert.exports.saved_model.export import served_versions
from keras_albert.pretraining import PretrainingData, prepare_examples
from keras_albert.text import read_conll, train_vocabulary
from keras_albert.training.run_folder import RunFolder
from keras_albert.utils import remote
from keras_albert.utils.atomic_files import atomic_directory, atomic_file
from keras_albert.utils.remote import address_of, fetch, list_files, remove, upload

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")

TINY = "albert_tiny_en_uncased"
TEXTS = ["a fine film", "a dull mess"]


@pytest.fixture(scope="module")
def classifier(tiny_proto):
    sizes = {"num_layers": 1, "num_heads": 2, "max_sequence_length": 32}
    widths = {"embedding_dim": 8, "hidden_dim": 16, "intermediate_dim": 32}
    return AlbertClassifier(
        AlbertBackbone(vocabulary_size=130, **sizes, **widths),
        preprocessor=AlbertClassifierPreprocessor(
            AlbertTokenizer(tiny_proto), max_sequence_length=32
        ),
        labels=["bad", "good"],
    )


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """The store in memory, empty; the working directory and the cache are new."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    store = fsspec.filesystem("memory")
    store.store.clear()
    store.pseudo_dirs[:] = [""]
    yield store
    store.store.clear()
    # No address became a path of this machine.
    assert not [each for each in (tmp_path / "here").iterdir() if ":" in each.name]


def write(address, *names, fails=False):
    """Write a directory with a file of each name, which contains it."""
    with atomic_directory(address) as directory:
        for name in names:
            (directory / name).parent.mkdir(exist_ok=True)
            (directory / name).write_text(name)
        _ = 1 / (not fails)


def put(store, files):
    for name, content in files.items():
        store.pipe_file(name, content)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_preset_is_saved_and_loaded(kind, memory, classifier):
    address = kind("memory://bucket/preset")
    classifier.save_to_preset(address)
    loaded = AlbertClassifier.from_preset(address)
    np.testing.assert_array_equal(loaded.predict(TEXTS), classifier.predict(TEXTS))
    before = dict(memory.store)
    with pytest.raises(FileExistsError, match=r"^memory://bucket/preset exists, and"):
        classifier.save_to_preset(address)
    assert memory.store == before


def test_other_presets_and_formats(memory, classifier):
    tokenizer = classifier.preprocessor.tokenizer
    tokenizer.save_to_preset("memory://tokenizer")
    assert memory.cat("/tokenizer/assets/tokenizer/vocabulary.spm") == tokenizer.proto
    classifier.export_to_transformers("memory://b/transformers")
    convert_checkpoint("memory://b/transformers", "memory://b/own", "keras-albert")
    loaded = AlbertClassifier.from_preset("memory://b/own")
    np.testing.assert_allclose(loaded.predict(TEXTS), classifier.predict(TEXTS), 1e-4)
    with pytest.raises(FileExistsError, match="memory://b/own exists"):
        convert_checkpoint(TINY, "memory://b/own", "keras-albert")


def test_whoever_finds_a_directory_finds_it_whole(memory, monkeypatch):
    names = (
        *("metadata.json", "config.json", "weights/1", "report.json", "a"),
        *("1_Pooling/config.json", "saved_model.pb"),
    )
    order, put_file = [], type(memory).put_file

    def record(self, source, target, **kwargs):
        order.append(target.removeprefix("/b/"))
        put_file(self, source, target, **kwargs)

    monkeypatch.setattr(type(memory), "put_file", record)
    write("memory://b", *names)
    assert set(order[:2]) == {"weights/1", "a"}
    assert set(order[-2:]) == {"1_Pooling/config.json", "config.json"}
    assert [memory.cat(f"/b/{name}").decode() for name in names] == list(names)


@pytest.mark.parametrize("fails_at", ["weights", "config.json"])
def test_of_an_upload_that_fails_nothing_is_left(fails_at, memory, monkeypatch):
    put_file = type(memory).put_file

    def fail(self, source, target, **kwargs):
        if target.endswith(fails_at):
            raise OSError("the bucket is full")
        put_file(self, source, target, **kwargs)

    monkeypatch.setattr(type(memory), "put_file", fail)
    message = (
        r"^memory://b/p could not be written \(OSError: the bucket is full\)\. Check"
    )
    with pytest.raises(ConnectionError, match=message):
        write("memory://b/p", "a", "weights", "config.json")
    assert not memory.store
    # A file that it would have replaced stays.
    put(memory, {f"/b/{fails_at}": b"old"})
    with pytest.raises(ConnectionError), atomic_file(f"memory://b/{fails_at}") as file:
        file.write_text("new")
    assert memory.cat(f"/b/{fails_at}") == b"old"


def test_a_slow_store_shows_progress(memory, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def slow(call):
        def wait(self, *arguments, callback, **kwargs):
            time.sleep(0.4)
            call(self, *arguments, callback=callback, **kwargs)
            callback.relative_update(10)

        return wait

    for name in ("get_file", "put_file"):
        monkeypatch.setattr(type(memory), name, slow(getattr(type(memory), name)))
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    write("memory://b/p", "a", "b", "c", "config.json")
    assert "writing memory://b/p" in shown.getvalue()
    assert "reading" not in shown.getvalue()
    assert fetch("memory://b/p").is_dir()
    assert "reading memory://b/p" in shown.getvalue()


def test_of_work_that_fails_nothing_is_written(memory):
    with pytest.raises(ZeroDivisionError):
        write("memory://b/p", "a", fails=True)
    assert not memory.store


def test_each_content_is_downloaded_once(memory, tmp_path):
    put(memory, {"/b/p/config.json": b"1", "/b/p/assets/a": b"2"})
    first = fetch("memory://b/p")
    assert first.name == "p"
    assert (first / "assets" / "a").read_text() == "2"
    assert fetch("memory://b/p/") == fetch(Path("memory://b/p")) == first
    put(memory, {"/b/p/assets/a": b"3"})
    assert (fetch("memory://b/p") / "assets" / "a").read_text() == "3"
    # Those who read the former content are not disturbed.
    assert (first / "assets" / "a").read_text() == "2"
    assert len(list((tmp_path / "home/keras_albert/remote").iterdir())) == 2


@pytest.mark.parametrize(
    "address", ["s3://ID:se/cret@b/p", "memory:/me:word@b/p", "https://me:word@b/p"]
)
def test_an_address_with_a_secret_is_refused_without_it(address, classifier):
    for use in (classifier.save_to_preset, AlbertClassifier.from_preset):
        with pytest.raises(ValueError, match="must not contain a password") as caught:
            use(address)
        assert not re.search("cret|word@", str(caught.value))
    assert address_of("hdfs://node:8020/a@b") == "hdfs://node:8020/a@b"
    assert (
        address_of(Path("abfs://container@account/a")) == "abfs://container@account/a"
    )


@pytest.mark.parametrize(
    "name", ["../a", "x/../../a", "/etc/a", r"..\a", "C:/a", "a\0"]
)
def test_no_name_leads_out_of_the_directory(name, memory, monkeypatch):
    found = {f"/b/p/{name}": {"size": 1}, "/b/p/config.json": {"size": 1}}
    monkeypatch.setattr(type(memory), "find", lambda *_, **__: found)
    with pytest.raises(ValueError, match="whose name leads out of the directory"):
        AlbertClassifier.from_preset("memory://b/p")


def test_what_is_not_there_is_named(memory):
    for address in ("memory://b/none", Path("memory://b/none")):
        with pytest.raises(
            FileNotFoundError, match=r"^There is nothing at memory://b/"
        ):
            AlbertClassifier.from_preset(address)
    put(memory, {"/b/p/model.weights.h5": b"1", "/b/file": b"2"})
    # An upload that is not complete.
    with pytest.raises(ValueError, match=r"config\.json"):
        AlbertClassifier.from_preset("memory://b/p")
    with pytest.raises(NotADirectoryError, match="memory://b/file is a file"):
        AlbertClassifier.from_preset("memory://b/file")


def test_a_file_that_is_replaced_meanwhile_is_not_read(memory, monkeypatch):
    put(memory, {"/b/p/a": b"1"})
    get_file = type(memory).get_file

    def replace(self, source, target, **kwargs):
        self.pipe_file(source, b"123")
        get_file(self, source, target, **kwargs)

    monkeypatch.setattr(type(memory), "get_file", replace)
    with pytest.raises(
        ValueError, match=r"memory://b/p was replaced while it was read: a"
    ):
        fetch("memory://b/p")


def test_files_are_read_and_written(memory, classifier):
    put(
        memory,
        {"/b/a.conll": b"Ada\tB\nsaw\tO\n", "/b/a.txt": b"the old school\n" * 30},
    )
    assert read_conll("memory://b/a.conll") == ([["Ada", "saw"]], [["B", "O"]])
    proto = train_vocabulary(
        files=["memory://b/a.txt"],
        vocabulary_size=24,
        hard_vocab_limit=False,
        output_path="memory://b/a.spm",
    )
    assert memory.cat("/b/a.spm") == proto
    address = "memory://b/served/a.onnx"
    classifier.export(address, format="onnx")
    before = memory.cat("/b/served/a.onnx")
    with pytest.raises(FileExistsError, match=f"^{address} already exists"):
        classifier.export(address, format="onnx")
    assert memory.cat("/b/served/a.onnx") == before
    with atomic_file(Path(address)) as file:
        file.write_text("new")
    assert memory.cat("/b/served/a.onnx") == b"new"


def test_versions_of_a_server(memory):
    put(memory, {"/b/m/1/saved_model.pb": b"1", "/b/m/12/saved_model.pb": b"2"})
    put(memory, {"/b/m/notes/3": b""})
    path = Path("memory://b/m")
    assert served_versions(path) == {1: path / "1", 12: path / "12"}
    assert served_versions(Path("memory://b/none")) == {}


def test_prepared_data(memory, tiny_proto):
    texts = Path("a.txt")
    texts.write_text("The old school.\nA red door opened.\n\n" * 20)
    output = "memory://b/prepared"
    metadata = prepare_examples(texts, output, tiny_proto, held_out=0.0)
    data = PretrainingData(output)
    assert len(data) == metadata.counters["examples: train"]
    with pytest.raises(FileExistsError, match=f"^{output} exists"):
        prepare_examples(texts, output, tiny_proto)


def test_a_command_reads_writes_and_resumes(memory, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(finetune, "SMALL", finetune.SMALL | {"num_layers": 1})
    rows = "text\tlabel\n" + "a fine film\tgood\na dull mess\tbad\n" * 8
    put(memory, {"/b/train.tsv": rows.encode(), "/b/dev.tsv": rows.encode()[:-16]})
    files = (
        "--train memory://b/train.tsv --dev memory://b/dev.tsv --output memory://b/run"
    )
    line = f"finetune classification {files} --epochs 2 --batch-size 8"
    opened, checkpoints = RunFolder.open, []
    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "finish", None)
        assert run_command(line.split()) == 1
    # What a machine that died has left: a checkpoint of the last epoch.
    names = {"training/curve.jsonl", "training/last.safetensors"}
    assert set(list_files("memory://b/run")) == names
    capsys.readouterr()

    def record(*arguments):
        checkpoints.append(opened(*arguments))
        return checkpoints[-1]

    monkeypatch.setattr(RunFolder, "open", record)
    assert run_command(line.split()) == 0
    assert [checkpoint.step for checkpoint in checkpoints] == [4]
    assert "model: memory://b/run/preset" in capsys.readouterr().out
    found = set(list_files("memory://b/run"))
    assert {"report.json", "curve.csv", "preset/config.json"} <= found
    assert not any(name.startswith("training/") for name in found)
    card = memory.cat("/b/run/preset/README.md").decode()
    assert str(tmp_path) not in card
    assert run_command(line.split()) == 1
    assert "memory://b/run/preset already exists" in capsys.readouterr().err
    assert run_command(["predict", "memory://b/run/preset", "memory://b/dev.tsv"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[0])["label"]


def test_a_model_that_was_uploaded_in_part_is_none(memory):
    put(memory, {"/b/run/preset/a": b"1", "/b/run/training/last.safetensors": b"2"})
    with RunFolder.at("memory://b/run") as folder:
        assert folder.last.read_text() == "2"
        folder.check_unfinished()
    put(memory, {"/b/run/preset/config.json": b"3"})
    message = "^memory://b/run/preset already exists"
    with (
        RunFolder.at("memory://b/run") as folder,
        pytest.raises(ValueError, match=message),
    ):
        folder.check_unfinished()


def test_a_missing_package_is_named(monkeypatch):
    if importlib.util.find_spec("gcsfs") is None:
        with pytest.raises(ImportError, match=r"^gs://b/p could not .*install gcsfs"):
            AlbertClassifier.from_preset("gs://b/p")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"fsspec.*keras-albert\[remote\]"):
        AlbertClassifier.from_preset("s3://b/p")


@pytest.fixture(scope="module")
def server():
    """The address of a S3 with one bucket."""
    for name in ("moto", "flask", "flask_cors", "s3fs"):
        pytest.importorskip(name, reason=f"{name} is not installed")
    from moto.server import ThreadedMotoServer

    found = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    found.start()
    host, port = found.get_host_and_port()
    yield f"http://{host}:{port}"
    found.stop()


@pytest.fixture
def s3(server, tmp_path, monkeypatch):
    """The store of that server, as the variables of AWS name it."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    for name, value in {
        "AWS_ENDPOINT_URL": server,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    fsspec.filesystem("s3").clear_instance_cache()
    store = fsspec.filesystem("s3")
    store.makedirs("bucket", exist_ok=True)
    yield store
    store.clear_instance_cache()


def test_s3_has_presets_files_and_runs(s3, classifier, tmp_path):
    classifier.save_to_preset("s3://bucket/a/preset")
    loaded = AlbertClassifier.from_preset("s3://bucket/a/preset")
    np.testing.assert_array_equal(loaded.predict(TEXTS), classifier.predict(TEXTS))
    with pytest.raises(FileExistsError, match="s3://bucket/a/preset exists"):
        classifier.save_to_preset("s3://bucket/a/preset")
    with atomic_file("s3://bucket/a/file") as file:
        file.write_text("first")
    # A folder is no object; some tools write an empty one.
    s3.pipe_file("bucket/a/folder/", b"")
    assert fetch("s3://bucket/a/file").read_text() == "first"
    assert "folder/" not in list_files("s3://bucket/a")
    large = np.random.default_rng(0).bytes(2**20)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "last.safetensors").write_bytes(large)
    for _ in range(2):
        upload(tmp_path / "run", "s3://bucket/run/training")
    with RunFolder.at("s3://bucket/run") as folder:
        assert folder.last.read_bytes() == large
    remove("s3://bucket/run/training")
    assert list_files("s3://bucket/run") == {}


def test_s3_names_do_not_lead_out(s3):
    s3.pipe_file("bucket/out/x/../../../a", b"1")
    with pytest.raises(ValueError, match="whose name leads out of the directory"):
        fetch("s3://bucket/out")


@pytest.mark.parametrize(
    ("variables", "error", "words"),
    [
        (
            {},
            FileNotFoundError,
            r"^s3://none/p could not .*bucket.* Correct the address",
        ),
        (
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:{port}"},
            ConnectionError,
            r"^s3://none/p could not .*Could not connect.* Check the address, the cred",
        ),
        (
            {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None},
            ConnectionError,
            r"^s3://none/p could not .*[Cc]redentials.* Check the address, the cred",
        ),
    ],
    ids=["no bucket", "refused", "no credentials"],
)
def test_s3_that_fails_is_one_sentence(
    variables, error, words, s3, classifier, monkeypatch, tmp_path
):
    # Of this machine, whose port nobody listens to.
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    for name, value in variables.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value.format(port=port))
    s3.clear_instance_cache()
    for use in (classifier.save_to_preset, AlbertClassifier.from_preset):
        with pytest.raises(error, match=words) as caught:
            use("s3://none/p")
        assert len(str(caught.value).splitlines()) == 1


def test_s3_that_connects_and_is_silent_is_not_waited_for(s3, monkeypatch, tmp_path):
    for name in ("_SECONDS_TO_LIST", "_SECONDS_TO_COPY"):
        monkeypatch.setattr(remote, name, 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        host, port = silent.getsockname()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        s3.clear_instance_cache()
        reason = r"\(TimeoutError: not done after 1 seconds\)\. Check the address, the"
        with pytest.raises(ConnectionError, match=f"^s3://b/p could not be .*{reason}"):
            AlbertClassifier.from_preset("s3://b/p")
        (tmp_path / "a").write_text("a")
        with pytest.raises(ConnectionError, match=f"^s3://b/p could not be .*{reason}"):
            upload(tmp_path, "s3://b/p")
