"""Files of a killed process are removed by the next one, and nothing else is."""

import os
import subprocess
import sys

import pytest

from keras_albert.utils import atomic_files as temporary
from keras_albert.utils.atomic_files import atomic_directory, atomic_file

pytestmark = pytest.mark.skipif(temporary.fcntl is None, reason="no locks")

# Run by its path, since the package is not needed.
_PROGRAM = """
import runpy, sys, pathlib
module = runpy.run_path(sys.argv[1])
beside = pathlib.Path(sys.argv[2])
with (
    module["temporary_directory"](beside) as folder,
    module["temporary_file"](beside) as file,
):
    (folder / "sub").mkdir()
    (folder / "sub" / "weights").write_bytes(b"half")
    print(folder.name, file.name, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def writer(tmp_path):
    """A process that writes beside `model`, and the names of its files."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, temporary.__file__, str(tmp_path / "model")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process, set(process.stdout.readline().split())
        process.kill()


@pytest.mark.parametrize("write", [atomic_directory, atomic_file])
def test_what_a_killed_process_left_is_cleared(write, writer, tmp_path):
    process, names = writer
    assert len(names) == 2
    with write(tmp_path / "other"):
        # The owner is still alive.
        assert names < set(os.listdir(tmp_path))
    process.kill()
    process.wait()
    assert set(os.listdir(tmp_path)) == names | {"other"}
    with write(tmp_path / "model"):
        assert not names & set(os.listdir(tmp_path))
    assert set(os.listdir(tmp_path)) == {"model", "other"}


def test_a_process_that_ends_well_clears_its_own(writer, tmp_path):
    process, _ = writer
    process.communicate()
    assert os.listdir(tmp_path) == []


def test_what_is_not_ours_stays(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    parent = tmp_path / "parent"
    parent.mkdir()
    for name in (".model.settings", ".model.abcdefgh", "model.abcdefgh.keras-albert"):
        (parent / name).mkdir()
    (parent / ".a.abcdefgh.keras-albert").symlink_to(elsewhere)
    os.mkfifo(parent / ".b.abcdefgh.keras-albert.txt")
    before = set(os.listdir(parent))
    with atomic_file(parent / "model"):
        pass
    assert set(os.listdir(parent)) == before | {"model"}
    assert (elsewhere / "file").read_text() == "mine"


def test_without_locks_it_is_written_and_never_cleared(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(95, "Operation not supported")

    left = tmp_path / ".model.abcdefgh.keras-albert"
    left.mkdir()
    monkeypatch.setattr(temporary.fcntl, "flock", no_locks)
    with atomic_directory(tmp_path / "model") as directory:
        (directory / "a").write_text("a")
    assert sorted(os.listdir(tmp_path)) == [left.name, "model"]


def test_one_that_is_cleared_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock, stolen = temporary.lock, []

    def steal(path):
        if not stolen:
            stolen.append(path)
            path.rmdir()
            if len(os.listdir(tmp_path)) == 0:
                path.mkdir()
                handle = lock(path)
                path.rmdir()
                return handle
        return lock(path)

    monkeypatch.setattr(temporary, "lock", steal)
    with atomic_directory(tmp_path / "model") as directory:
        assert directory != stolen[0]
        assert directory.is_dir()
    assert os.listdir(tmp_path) == ["model"]


def test_a_long_name_has_room(tmp_path):
    name = "é" * 120
    with atomic_file(tmp_path / name) as partial:
        partial.write_text("a")
    assert os.listdir(tmp_path) == [name]
