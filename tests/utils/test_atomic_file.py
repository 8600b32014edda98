"""Files are written atomically."""

import os

import pytest

from keras_albert.utils.atomic_file import atomic_file


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
