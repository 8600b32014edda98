import signal
import subprocess
import sys

import numpy as np
import pytest

from keras_albert.training.run_folder import (
    RunFolder,
    TrainingCheckpoint,
    TrainingCurve,
    write_table,
)


def write(folder, **identity):
    folder.start([])
    groups = {"model": [np.arange(3.0), np.eye(2, dtype="float32")], "best": []}
    TrainingCheckpoint(7, groups, {"identity": identity}).write(folder.last)


def test_a_run_is_found_by_what_it_is(tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert folder.open({"seed": 0}) is None
    assert not folder.path.exists()
    write(folder, seed=0, data="a")
    checkpoint = folder.open({"seed": 0, "data": "b"}, may_change={"data"})
    assert checkpoint.step == 7
    np.testing.assert_array_equal(checkpoint.groups["model"][1], np.eye(2))
    with pytest.raises(ValueError, match=r"data was 'a' and is 'b'; rate was None and"):
        folder.open({"seed": 0, "data": "b", "rate": 1})
    folder.check_unfinished()
    folder.preset.mkdir()
    with pytest.raises(ValueError, match="the run is finished"):
        folder.check_unfinished()


def test_a_file_in_its_place_is_named(tmp_path):
    (tmp_path / "run").write_text("mine")
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(FileExistsError, match=r"run'$"), folder.locked():
        pass


def test_a_disk_without_room_for_a_checkpoint_is_named_at_the_start(tmp_path):
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(OSError, match=r"MB free, but a checkpoint takes [\d,.]+ MB"):
        folder.start([], size=2**60)
    assert not folder.curve.path.exists()


def test_a_checkpoint_of_another_version_is_refused(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")
    module = "keras_albert.training.run_folder"
    with monkeypatch.context() as patch:
        patch.setattr(f"{module}._VERSION", 1)
        write(folder, seed=0)
    with pytest.raises(ValueError, match=r"version 1, but .* the version that wro"):
        folder.open({"seed": 0})


def test_files_of_others_in_its_directory_stay(tmp_path):
    folder = RunFolder(tmp_path / "run")
    write(folder)
    (folder.training / "notes.txt").touch()
    folder.tidy_up()
    assert list(folder.training.iterdir()) == [folder.training / "notes.txt"]


@pytest.mark.parametrize("content", [b"", b"\0" * 100, b"\xff" * 8 + b"{}"])
def test_a_damaged_checkpoint_is_named(tmp_path, content):
    folder = RunFolder(tmp_path / "run")
    write(folder, seed=0)
    folder.last.write_bytes(content)
    with pytest.raises(ValueError, match=r"last\.safetensors.* Remove it to restart"):
        folder.open({"seed": 0})


def test_a_curve_is_read_as_far_as_it_is_whole(tmp_path):
    curve = TrainingCurve(tmp_path / "curve.jsonl")
    assert curve.rows() == []
    rows = [{"step": 1, "loss": 2.5}, {"step": 2, "loss": 1.5, "val_loss": 2.0}]
    curve.write(rows[:1])
    curve.append(rows[1])
    with curve.path.open("a") as file:
        file.write('{"step": 3, "lo')
    assert curve.rows() == rows
    write_table(tmp_path / "curve.csv", rows)
    table = (tmp_path / "curve.csv").read_text().splitlines()
    assert table == ["step,loss,val_loss", "1,2.5,", "2,1.5,2.0"]


_HOLDS = """
import sys, time
from pathlib import Path
from keras_albert.training.run_folder import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    time.sleep(600)
"""


def test_one_process_writes_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    folder = RunFolder(tmp_path / "a" / "run")
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(folder.path)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "locked\n"
        with (
            pytest.raises(ValueError, match=r"run is in use: another process writes"),
            folder.locked(),
        ):
            pass
        # However it ends, nothing is left behind.
        process.send_signal(signal.SIGKILL)
    with folder.locked():
        assert list(folder.path.iterdir()) == []
    with folder.locked():
        pass


def test_a_run_that_cannot_begin_leaves_nothing(tmp_path):
    folder = RunFolder(tmp_path / "a" / "run")
    with pytest.raises(ValueError, match="wrong"), folder.locked():
        raise ValueError("wrong")
    assert not list(tmp_path.iterdir())
