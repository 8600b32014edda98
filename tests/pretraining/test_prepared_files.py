"""Damaged, exchanged and truncated shards are named when they are opened or read."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from keras_albert.pretraining import PretrainingData, prepared_files
from keras_albert.pretraining.prepared_files import METADATA_FILE
from tests.one_backend import on_one_backend
from tests.pretraining.prepared_texts import write_prepared

pytestmark = on_one_backend


@pytest.fixture
def folder(tmp_path, tiny_proto):
    return write_prepared(tmp_path / "prepared", tiny_proto, train=48, held_out=24)


def shard(folder, split="train"):
    (path,) = folder.glob(f"{split}-*.arrow")
    return path


def replace(path, content):
    # Not in place: other tests may have mapped it.
    path.unlink()
    path.write_bytes(content)


def read(folder):
    return PretrainingData(folder).batches(48).batch(0)


def test_a_changed_token_is_found_when_it_is_read(folder):
    path = shard(folder)
    content = bytearray(path.read_bytes())
    data = PretrainingData(folder)
    ids = np.concatenate([part.values for part in data.segments(np.array([7]))])
    place = bytes(content).find(ids.astype("uint16").tobytes())
    assert place > 0
    content[place] ^= 1
    replace(path, content)
    data = PretrainingData(folder)
    with pytest.raises(ValueError, match=r"train-.*arrow is damaged, or another"):
        data.segments(np.arange(48))


def test_a_held_out_shard_in_the_place_of_a_training_one_is_refused(folder):
    read(folder)
    shutil.copy(shard(folder, "held_out"), shard(folder))
    with pytest.raises(ValueError, match=r"train-.* is not the file that was prepared"):
        PretrainingData(folder)


def test_of_the_same_size_it_is_refused_when_it_is_read(folder):
    content = shard(folder, "held_out").read_bytes()
    stored = json.loads((folder / METADATA_FILE).read_text())
    facts = stored["files"]
    facts[shard(folder).name] = facts[shard(folder, "held_out").name]
    (folder / METADATA_FILE).write_text(json.dumps(stored))
    replace(shard(folder), content)
    with pytest.raises(ValueError, match="or another file: example"):
        read(folder)


def test_facts_are_compared(folder):
    name = shard(folder).name
    path = folder / METADATA_FILE
    stored = json.loads(path.read_text())
    assert set(stored["files"][name]) == {"bytes", "rows", "tokens"}
    data = PretrainingData(folder)
    both = data.segments(np.arange(48))
    assert data.num_tokens == sum(len(part.values) for part in both)
    stored["files"][name]["rows"] = 47
    path.write_text(json.dumps(stored))
    with pytest.raises(ValueError, match=r"its rows should be 47\. Received: 48"):
        PretrainingData(folder).segments(np.arange(4))
    path.write_text(json.dumps(stored | {"format_version": 1}))
    with pytest.raises(ValueError, match=r"format 1, .* prepare the texts again"):
        PretrainingData(folder)
    shard(folder).unlink()
    path.write_text(json.dumps(stored))
    with pytest.raises(FileNotFoundError, match=name):
        PretrainingData(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("sequence_length", value) for value in (10**9, None, -1)),
        ("vocabulary_size", "x"),
        *(("shards", value) for value in (3, {"train": []})),
        ("shards", {"train": ["../a.arrow"], "held_out": []}),
        ("other", 1),
    ],
)
def test_damaged_metadata_are_named(folder, name, value):
    path = folder / METADATA_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: value}))
    with pytest.raises(ValueError, match=r"metadata\.json .*Prepare the texts again"):
        PretrainingData(folder)


def test_a_damaged_end_of_a_file_names_it(folder):
    content = shard(folder).read_bytes()
    replace(shard(folder), content[:-200] + bytes(100) + content[-100:])
    with pytest.raises(ValueError, match=r"train-.*arrow is damaged, or not a file"):
        read(folder)


def test_files_beyond_a_number_are_closed_and_opened_again(folder, monkeypatch):
    monkeypatch.setattr(prepared_files, "_MAX_OPEN", 1)
    paths = [str(shard(folder)), str(shard(folder, "held_out"))]
    facts = json.loads((folder / METADATA_FILE).read_text())["files"]
    files = prepared_files.ExampleFiles(paths, facts)
    rows = np.array([0, 60, 1, 71, 47, 48])
    found = files.segments(rows)
    for number, row in enumerate(rows):
        path = paths[int(row >= 48)]
        one = prepared_files.ExampleFile(path, facts[Path(path).name])
        for part, expected in zip(found, one.segments(row % 48), strict=True):
            np.testing.assert_array_equal(part.to_lists()[number], expected)
    assert sum(file._descriptor is not None for file in files._files) == 1


@pytest.mark.parametrize("kept", [0.9, 0.5, 0])
def test_a_short_one_is_refused(folder, kept):
    content = shard(folder).read_bytes()
    replace(shard(folder), content[: int(len(content) * kept)])
    with pytest.raises(ValueError, match=r"train-.*its bytes should be"):
        PretrainingData(folder)


def test_one_that_is_cut_while_it_is_in_use_is_an_error(folder):
    data = PretrainingData(folder)
    data.segments(np.arange(8))
    with shard(folder).open("r+b") as file:
        file.truncate(0)
    with pytest.raises(ValueError, match=r"was cut from .* to 0 bytes while"):
        data.segments(np.arange(8, 16))


def test_one_that_is_removed_while_it_is_in_use_stays_readable(folder):
    data = PretrainingData(folder)
    data.segments(np.arange(8))
    shard(folder).unlink()
    assert len(data.segments(np.arange(8, 48))[0]) == 40
