"""Files and directories are old or new, whatever happens; nothing is left behind."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from keras_albert.presets.handles import local_directory
from keras_albert.utils import temporary
from keras_albert.utils.atomic_files import (
    atomic_directory,
    atomic_file,
    former_directory,
)
from tests.placed_deaths import killed_everywhere


def test_the_target_changes_when_the_block_ends(tmp_path):
    target = tmp_path / "new" / "a.txt"
    with atomic_file(target) as partial:
        partial.write_text("first")
        assert not target.exists()
    with atomic_file(target) as partial:
        partial.write_text("second")
        assert target.read_text() == "first"
    assert target.read_text() == "second"
    assert os.listdir(target.parent) == ["a.txt"]


def test_an_error_leaves_what_was_there(tmp_path):
    target = tmp_path / "a.txt"
    target.write_text("mine")

    def write_half():
        with atomic_file(target) as partial:
            partial.write_text("half")
            raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_half()
    assert target.read_text() == "mine"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    with atomic_file(tmp_path / "a") as partial:
        # Some libraries replace the file instead of writing to it.
        partial.unlink()
        partial.touch(mode=0o600)
    (tmp_path / "b").write_text("")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode
    with atomic_directory(tmp_path / "c") as directory:
        # Nobody else reads it before it is complete.
        assert stat.S_IMODE(directory.parent.stat().st_mode) == 0o700
    (tmp_path / "d").mkdir()
    assert (tmp_path / "c").stat().st_mode == (tmp_path / "d").stat().st_mode


OLD = {"a.txt": "old", "stale.txt": "old", "sub/notes.txt": "mine"}
NEW = {"a.txt": "new", "sub/b.txt": "new", "sub/notes.txt": "mine"}


def write_files(directory, texts):
    for name, text in texts.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)


def read_files(directory):
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_text() for path in files}


def drop_stale(written, target):
    return lambda name: name == "stale.txt"


def save_new(target):
    with atomic_directory(target, drop_stale) as directory:
        write_files(directory, {"a.txt": "new", "sub/b.txt": "new"})


def test_a_new_directory_appears_whole(tmp_path):
    target = tmp_path / "parent" / "new"
    with atomic_directory(target) as directory:
        write_files(directory, {"a.txt": "a", "sub/b.txt": "b"})
        assert not target.exists()
    assert read_files(target) == {"a.txt": "a", "sub/b.txt": "b"}
    assert os.listdir(target.parent) == ["new"]


def refuse(written, target):
    assert read_files(written) == {"a.txt": "new"}
    raise ValueError("not here")


@pytest.mark.parametrize("there", [{}, OLD])
@pytest.mark.parametrize("plan", [drop_stale, refuse])
def test_an_exception_changes_nothing(tmp_path, there, plan):
    write_files(tmp_path / "model", there)
    before = os.listdir(tmp_path)
    error = ValueError if plan is refuse and there else KeyboardInterrupt

    def write():
        with atomic_directory(tmp_path / "model", plan) as directory:
            write_files(directory, {"a.txt": "new"})
            if error is KeyboardInterrupt:
                raise error

    with pytest.raises(error):
        write()
    assert read_files(tmp_path / "model") == there
    assert os.listdir(tmp_path) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_killed_at_any_operation_it_has_the_old_or_the_new(tmp_path):
    def prepare(number):
        write_files(tmp_path / str(number) / "model", OLD)
        return tmp_path / str(number) / "model"

    found, away = [], 0
    for target in killed_everywhere(prepare, save_new):
        found.append(read_files(local_directory(target)))
        away += not target.exists()
        # The next save finds and overcomes what is left.
        save_new(target)
        assert read_files(target) == NEW
        # Killed before it has locked its directory, a process leaves that, empty.
        assert len(os.listdir(target.parent)) <= 2
        assert read_files(target.parent).keys() == {f"model/{name}" for name in NEW}
    assert found[0] == OLD
    assert found[-1] == NEW
    assert len(found) > 20
    assert away == 1
    # After the new directory appears, the old one never comes back.
    assert found == sorted(found, key=[OLD, NEW].index)


def test_between_the_renames_the_old_one_is_found(tmp_path, monkeypatch):
    target = tmp_path / "model"
    write_files(target, OLD)
    rename = Path.rename

    def fail(self, to):
        if to == target and self != former_directory(target):
            assert local_directory(target) == former_directory(target)
            raise KeyboardInterrupt
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(KeyboardInterrupt):
        save_new(target)
    assert read_files(target) == OLD
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize(
    ("there", "written", "what"),
    [("b/a.txt/notes", "b/a.txt", "a file"), ("b/a", "b/a/c.txt", "a folder")],
)
def test_a_file_and_a_directory_do_not_replace_each_other(
    tmp_path, there, written, what
):
    write_files(tmp_path / "model", {there: "mine", "z.txt": "mine"})

    def write():
        with atomic_directory(tmp_path / "model") as directory:
            write_files(directory, {written: "new", "z.txt": "new"})

    with pytest.raises(ValueError, match=f"is in the way of {what}"):
        write()
    assert read_files(tmp_path / "model") == {there: "mine", "z.txt": "mine"}


def test_what_stays_is_as_it_was(tmp_path):
    target = tmp_path / "disk" / "model"
    write_files(target, OLD | {"run.sh": "mine"})
    (target / "run.sh").chmod(0o755)
    (target / "link").symlink_to("nowhere")
    target.chmod(0o750)
    (tmp_path / "model").symlink_to(target)
    save_new(tmp_path / "model")
    assert (tmp_path / "model").is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o750
    assert stat.S_IMODE((target / "run.sh").stat().st_mode) == 0o755
    assert os.readlink(target / "link") == "nowhere"
    assert read_files(target) == NEW | {"run.sh": "mine"}


def test_what_cannot_be_replaced_is_refused(tmp_path, monkeypatch):
    target = tmp_path / "model"
    write_files(target, OLD)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NotADirectoryError, match="file is a file"):
        save_new(tmp_path / "file")
    for owner, name, error, message in (
        # The superuser has access to everything.
        (os, "access", PermissionError, "model is read-only"),
        (Path, "is_mount", OSError, "a mount point or the working directory"),
        (Path, "samefile", OSError, r"within it, such as .*model/preset"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, lambda *_, name=name: name != "access")
            with pytest.raises(error, match=message):
                save_new(target)
    assert read_files(target) == OLD
    monkeypatch.chdir(target)
    with pytest.raises(OSError, match="working directory"):
        save_new(".")


def test_what_is_written_within_becomes_a_part(tmp_path):
    with atomic_directory(tmp_path / "model") as directory:
        for name in ("a.txt", "b.txt"):
            with atomic_directory(directory) as inner:
                write_files(inner, {name: "new"})
        assert not (tmp_path / "model").exists()
    assert read_files(tmp_path / "model") == {"a.txt": "new", "b.txt": "new"}
    assert os.listdir(tmp_path) == ["model"]


needs_locks = pytest.mark.skipif(temporary.fcntl is None, reason="no locks")

# Run by its path, since the package is not needed.
_PROGRAM = """
import runpy, sys, pathlib
module = runpy.run_path(sys.argv[1])
with module["temporary_directory"](pathlib.Path(sys.argv[2])) as folder:
    (folder / "sub").mkdir()
    (folder / "sub" / "weights").write_bytes(b"half")
    print(folder.name, flush=True)
    sys.stdin.read()
"""


@needs_locks
def test_what_a_killed_process_left_is_cleared(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, temporary.__file__, str(tmp_path / "model")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        name = process.stdout.readline().strip()
        with atomic_directory(tmp_path / "other"):
            # The owner is still alive.
            assert name in os.listdir(tmp_path)
        process.kill()
        process.wait()
    assert set(os.listdir(tmp_path)) == {name, "other"}
    with atomic_file(tmp_path / "model"):
        assert name not in os.listdir(tmp_path)
    assert set(os.listdir(tmp_path)) == {"model", "other"}


@needs_locks
def test_what_is_not_ours_stays(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("mine")
    parent = tmp_path / "parent"
    parent.mkdir()
    for name in (".model.settings", ".model.abcdefgh", "model.abcdefgh.keras-albert"):
        (parent / name).mkdir()
    (parent / ".a.abcdefgh.keras-albert").symlink_to(elsewhere)
    os.mkfifo(parent / ".b.abcdefgh.keras-albert")
    before = set(os.listdir(parent))
    with atomic_file(parent / "model"):
        pass
    assert set(os.listdir(parent)) == before | {"model"}
    assert (elsewhere / "file").read_text() == "mine"


@needs_locks
def test_without_locks_it_is_written_and_never_cleared(tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(95, "Operation not supported")

    left = tmp_path / ".model.abcdefgh.keras-albert"
    left.mkdir()
    monkeypatch.setattr(temporary.fcntl, "flock", no_locks)
    with atomic_directory(tmp_path / "model") as directory:
        (directory / "a").write_text("a")
    assert sorted(os.listdir(tmp_path)) == [left.name, "model"]


def test_a_long_name_has_room(tmp_path):
    name = "é" * 110
    for _ in range(2):
        with atomic_directory(tmp_path / name) as directory:
            (directory / "a").touch()
    assert os.listdir(tmp_path) == [name]
