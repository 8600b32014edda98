"""Files and directories are old or new, whatever happens; nothing is left behind."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from keras_albert.presets.handles import local_directory
from keras_albert.utils import atomic_files as module
from keras_albert.utils.atomic_files import atomic_directory, atomic_file
from tests.placed_deaths import died_everywhere


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


OLD = {"a.txt": "old", "stale.txt": "old", "sub/notes.txt": "mine"}
NEW = {"a.txt": "new", "sub/b.txt": "new", "sub/notes.txt": "mine"}


@pytest.fixture(params=["swapped", "renamed"])
def way(request, monkeypatch):
    """How the directory is replaced: swapped, or renamed where it cannot be."""
    if request.param == "renamed":
        monkeypatch.setattr(module, "swap_directories", lambda first, second: False)
    return request.param


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
        (directory / "a.txt").write_text("a")
        (directory / "sub").mkdir()
        (directory / "sub" / "b.txt").write_text("b")
        assert directory.parent == target.parent
        assert not target.exists()
    assert (target / "sub" / "b.txt").read_text() == "b"
    assert os.listdir(target.parent) == ["new"]


@pytest.mark.parametrize("there", [{}, {"a.txt": "old"}])
def test_an_exception_changes_nothing(tmp_path, there):
    write_files(tmp_path / "model", there)
    before = os.listdir(tmp_path)

    def write():
        with atomic_directory(tmp_path / "model") as directory:
            (directory / "a.txt").write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert read_files(tmp_path / "model") == there
    assert os.listdir(tmp_path) == before


def test_the_directory_has_ordinary_permissions(tmp_path):
    (tmp_path / "plain").mkdir()
    with atomic_directory(tmp_path / "new") as directory:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    expected = stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == expected


def test_a_file_in_the_place_of_the_directory_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with (
        pytest.raises(NotADirectoryError, match="is a file"),
        atomic_directory(tmp_path / "file"),
    ):
        pass
    assert (tmp_path / "file").read_text() == "mine"


def test_it_dies_with_the_old_or_with_the_new(tmp_path, way):
    def prepare(number):
        write_files(tmp_path / str(number) / "model", OLD)
        return tmp_path / str(number) / "model"

    found = [
        read_files(local_directory(target))
        for target in died_everywhere(prepare, save_new)
    ]
    assert found[0] == OLD
    assert found[-1] == NEW
    assert len(found) > 30
    # After the new directory appears, the old one never comes back.
    assert found == sorted(found, key=[OLD, NEW].index)


def test_what_a_dead_process_left_is_overcome(tmp_path, way):
    def prepare(number):
        write_files(tmp_path / str(number) / "model", OLD)
        return tmp_path / str(number) / "model"

    for target in died_everywhere(prepare, save_new):
        save_new(target)
        assert read_files(target) == NEW
        assert former_is_gone(target)


def former_is_gone(target):
    return not module.former_directory(target).exists()


def test_a_refusal_changes_nothing(tmp_path):
    def refuse(written, target):
        assert read_files(written) == {"a.txt": "new"}
        raise ValueError("not here")

    write_files(tmp_path / "model", OLD)

    def write():
        with atomic_directory(tmp_path / "model", refuse) as directory:
            write_files(directory, {"a.txt": "new"})

    with pytest.raises(ValueError, match="not here"):
        write()
    assert read_files(tmp_path / "model") == OLD
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.parametrize(
    ("there", "written"), [("a.txt/notes", "a.txt"), ("a", "a/b.txt")]
)
def test_a_file_and_a_directory_do_not_replace_each_other(tmp_path, there, written):
    write_files(tmp_path / "model", {there: "mine", "z.txt": "mine"})

    def write():
        with atomic_directory(tmp_path / "model") as directory:
            write_files(directory, {written: "new", "z.txt": "new"})

    with pytest.raises(OSError, match="must be written there"):
        write()
    assert read_files(tmp_path / "model") == {there: "mine", "z.txt": "mine"}


def test_what_others_write_meanwhile_stays(tmp_path, way):
    write_files(tmp_path / "model", OLD)

    def plan(written, target):
        return lambda name: False

    with atomic_directory(tmp_path / "model", plan) as directory:
        write_files(directory, {"a.txt": "new"})
        write_files(tmp_path / "model", {"log.txt": "theirs"})
    assert (tmp_path / "model" / "log.txt").read_text() == "theirs"


def test_links_and_permissions_stay(tmp_path, way):
    target = tmp_path / "model"
    write_files(target, {"a.txt": "old", "run.sh": "mine"})
    (target / "run.sh").chmod(0o755)
    (target / "link").symlink_to("nowhere")
    target.chmod(0o750)
    with atomic_directory(target) as directory:
        write_files(directory, {"a.txt": "new"})
    assert stat.S_IMODE(target.stat().st_mode) == 0o750
    assert stat.S_IMODE((target / "run.sh").stat().st_mode) == 0o755
    assert os.readlink(target / "link") == "nowhere"


def test_a_link_to_the_directory_stays_one(tmp_path, way):
    write_files(tmp_path / "disk" / "model", OLD)
    (tmp_path / "model").symlink_to(tmp_path / "disk" / "model")
    save_new(tmp_path / "model")
    assert (tmp_path / "model").is_symlink()
    assert read_files(tmp_path / "disk" / "model") == NEW


def test_the_working_directory_can_be_replaced(tmp_path, monkeypatch, way):
    write_files(tmp_path / "model", OLD)
    monkeypatch.chdir(tmp_path / "model" / "sub")
    save_new(tmp_path / "model")
    assert sorted(os.listdir()) == ["b.txt", "notes.txt"]


@pytest.mark.parametrize(
    ("owner", "name", "answer", "error"),
    [
        # The superuser has access to everything.
        (os, "access", False, PermissionError("read-only")),
        (Path, "is_mount", True, OSError("mount point")),
    ],
)
def test_what_cannot_be_replaced_is_refused(
    tmp_path, monkeypatch, owner, name, answer, error
):
    write_files(tmp_path / "model", OLD)
    monkeypatch.setattr(owner, name, lambda *_: answer)
    with pytest.raises(type(error), match=str(error)):
        save_new(tmp_path / "model")
    assert read_files(tmp_path / "model") == OLD


def test_where_files_have_one_name_they_are_copied(tmp_path, monkeypatch):
    def fail(*arguments, **kwargs):
        raise OSError("not supported")

    write_files(tmp_path / "model", OLD)
    monkeypatch.setattr(os, "link", fail)
    save_new(tmp_path / "model")
    assert read_files(tmp_path / "model") == NEW


def test_what_is_written_within_becomes_a_part(tmp_path):
    with atomic_directory(tmp_path / "model") as directory:
        for name in ("a.txt", "b.txt"):
            with atomic_directory(directory) as inner:
                write_files(inner, {name: "new"})
        assert not (tmp_path / "model").exists()
    assert read_files(tmp_path / "model") == {"a.txt": "new", "b.txt": "new"}
    assert os.listdir(tmp_path) == ["model"]


needs_locks = pytest.mark.skipif(module.fcntl is None, reason="no locks")

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
        [sys.executable, "-c", _PROGRAM, module.__file__, str(tmp_path / "model")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process, set(process.stdout.readline().split())
        process.kill()


@needs_locks
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


@needs_locks
def test_a_process_that_ends_well_clears_its_own(writer, tmp_path):
    process, _ = writer
    process.communicate()
    assert os.listdir(tmp_path) == []


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
    os.mkfifo(parent / ".b.abcdefgh.keras-albert.txt")
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
    monkeypatch.setattr(module.fcntl, "flock", no_locks)
    with atomic_directory(tmp_path / "model") as directory:
        (directory / "a").write_text("a")
    assert sorted(os.listdir(tmp_path)) == [left.name, "model"]


@needs_locks
def test_one_that_is_cleared_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock, stolen = module.lock, []

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

    monkeypatch.setattr(module, "lock", steal)
    with atomic_directory(tmp_path / "model") as directory:
        assert directory != stolen[0]
        assert directory.is_dir()
    assert os.listdir(tmp_path) == ["model"]


def test_a_long_name_has_room(tmp_path):
    name = "é" * 120
    with atomic_file(tmp_path / name) as partial:
        partial.write_text("a")
    assert os.listdir(tmp_path) == [name]
