"""Progress is that of the bytes that have been read, by any process of this machine."""

import gzip
import time

import numpy as np
import pytest

from keras_albert.pretraining import prepare_examples, train_vocabulary_on
from keras_albert.pretraining.prepare import part as part_module
from keras_albert.pretraining.prepare.input_parts import InputPart
from keras_albert.pretraining.prepare.progress import (
    progress_of_part,
    reported_progress,
)
from tests.pretraining.texts import make_documents, plain

pytest.importorskip("apache_beam")


def test_bytes_are_reported_while_they_are_read(tmp_path, tiny_proto, monkeypatch):
    text = plain(make_documents(40)).encode()
    (tmp_path / "a.txt").write_bytes(text)
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(text))
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    split_of = part_module.PartPreparation._split_of

    def slowly(*arguments):
        time.sleep(0.02)
        return split_of(*arguments)

    monkeypatch.setattr(part_module.PartPreparation, "_split_of", slowly)
    calls = []

    def prepare():
        calls.clear()
        return prepare_examples(
            str(tmp_path / "*.*"),
            tmp_path / "out",
            tiny_proto,
            sequence_length=64,
            held_out=0.2,
            part_size=4000,
            progress=lambda *call: calls.append(call),
        )

    with_progress = prepare()
    done = [count for count, _ in calls]
    assert done == sorted(done)
    assert len(set(done)) > 3
    assert calls[-1] == (total, total)
    # Finished parts are counted, and progress does not change the results.
    assert prepare() == with_progress
    assert calls[-1] == (total, total)


def test_the_texts_of_a_vocabulary_are_counted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(plain(make_documents(40)))
    calls = []
    train_vocabulary_on(path, 70, progress=lambda *call: calls.append(call))
    assert calls[-1] == (path.stat().st_size, path.stat().st_size)


def test_another_machine_reports_nothing(tmp_path):
    progress_of_part("", 0)(5)
    progress_of_part(str(tmp_path / "elsewhere"), 0)(5)
    with reported_progress([InputPart("a", 9, 0.0)], None) as file:
        assert file == ""


def test_the_last_state_is_reported():
    calls = []
    parts = [InputPart("a", 9, 0.0), InputPart("b", 20, 0.0, 5, 15)]
    with reported_progress(parts, lambda *call: calls.append(call)) as file:
        progress_of_part(file, 1)(7)
        assert np.memmap(file, np.int64, "r").tolist() == [0, 7]
    assert calls[-1] == (7, 19)
