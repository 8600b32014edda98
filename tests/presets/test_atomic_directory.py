import os
import stat

import pytest

from keras_albert.presets.atomic_directory import atomic_directory


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


def test_an_exception_leaves_no_trace_of_a_new_directory(tmp_path):
    def write():
        with atomic_directory(tmp_path / "new") as directory:
            (directory / "a.txt").write_text("a")
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        write()
    assert os.listdir(tmp_path) == []


def test_an_exception_leaves_a_directory_as_it_was(tmp_path):
    target = tmp_path / "old"
    target.mkdir()
    (target / "a.txt").write_text("old")

    def write():
        with atomic_directory(target) as directory:
            (directory / "a.txt").write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert (target / "a.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["old"]


def test_files_are_replaced_and_others_stay(tmp_path):
    target = tmp_path / "old"
    (target / "sub").mkdir(parents=True)
    for name in ("a.txt", "notes.txt", "sub/b.txt", "sub/c.txt"):
        (target / name).write_text("old")
    with atomic_directory(target) as directory:
        (directory / "a.txt").write_text("new")
        (directory / "sub").mkdir()
        (directory / "sub" / "b.txt").write_text("new")
    texts = {
        name: (target / name).read_text()
        for name in ("a.txt", "notes.txt", "sub/b.txt", "sub/c.txt")
    }
    assert texts == {
        "a.txt": "new",
        "notes.txt": "old",
        "sub/b.txt": "new",
        "sub/c.txt": "old",
    }


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


def test_a_relative_path_and_a_string_will_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with atomic_directory("new") as directory:
        (directory / "a.txt").write_text("a")
    assert (tmp_path / "new" / "a.txt").exists()
