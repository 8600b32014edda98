"""Damaged, exchanged and truncated shards are named when they are opened or read."""

import json
import shutil

import numpy as np
import pytest

from keras_albert.pretraining import PretrainingData
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
    with pytest.raises(ValueError, match=r"train-.*arrow is damaged: example \d"):
        data.segments(np.arange(48))


def test_a_held_out_shard_in_the_place_of_a_training_one_is_refused(folder):
    read(folder)
    shutil.copy(shard(folder, "held_out"), shard(folder))
    with pytest.raises(ValueError, match=r"train-.* is not the file that was prepared"):
        PretrainingData(folder)


def test_of_the_same_size_it_is_refused_too(folder, tiny_proto):
    other = write_prepared(folder.parent / "b", tiny_proto, 48, 24, seed=1)
    content, facts = [], []
    for each in (folder, other):
        content.append(shard(each).read_bytes())
        stored = json.loads((each / METADATA_FILE).read_text())
        facts.append(stored["files"][shard(each).name])
    assert facts[0]["rows"] == facts[1]["rows"]
    assert facts[0]["checksum"] != facts[1]["checksum"]
    stored["files"][shard(other).name] = facts[1] | {"bytes": len(content[0])}
    (other / METADATA_FILE).write_text(json.dumps(stored))
    replace(shard(other), content[0])
    with pytest.raises(ValueError, match="its checksum should be"):
        PretrainingData(other)


@pytest.mark.parametrize("kept", [0.9, 0.5, 0])
def test_a_short_one_is_refused(folder, kept):
    content = shard(folder).read_bytes()
    replace(shard(folder), content[: int(len(content) * kept)])
    with pytest.raises(ValueError, match=r"train-.*its bytes should be"):
        PretrainingData(folder)


def test_one_that_is_cut_while_it_is_in_use_is_an_error(folder):
    batches = PretrainingData(folder).batches(8)
    batches.batch(0)
    with shard(folder).open("r+b") as file:
        file.truncate(0)
    # Its pages are gone: without the check, a signal ends the process.
    with pytest.raises(ValueError, match=r"was cut from .* to 0 bytes while"):
        batches.batch(1)


def test_one_that_is_removed_while_it_is_in_use_stays_readable(folder):
    batches = PretrainingData(folder).batches(8)
    shard(folder).unlink()
    assert len(batches.batch(0)[0]["token_ids"]) == 8
