"""Files and directories that are written beside their target, then renamed."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from keras_albert.utils import remote
from keras_albert.utils.temporary import (
    folders_above,
    is_temporary,
    temporary_directory,
)


@contextmanager
def atomic_file(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file that becomes `target` when the block succeeds."""
    # Several processes may write one target; the last one wins. Stores of objects show
    # a file when all of it is there.
    if remote.is_remote(target):
        remote.list_files(target)  # It is reached before the work.
        with remote.uploaded(target) as path:
            yield path
        return
    path = remote.local_path(target).absolute()
    with folders_above(path), temporary_directory(path) as folder:
        written = folder / path.name
        written.touch()
        mode = written.stat().st_mode
        yield written
        # Some libraries replace the file with a private one.
        written.chmod(mode)
        written.replace(path)


def check_new_file(path: Path, overwrite: bool = False) -> None:
    """Check that a file can be written, before there is work to lose."""
    if path.is_dir():
        raise IsADirectoryError(
            f"{path} is a directory, but a file must be written there. Choose another "
            "path."
        )
    exists = remote.list_files(path) if remote.is_remote(path) else path.exists()
    if exists and not overwrite:
        raise FileExistsError(
            f"{remote.address_of(path) or path} already exists. Choose another path, "
            "or pass overwrite=True."
        )


@contextmanager
def atomic_directory(
    target: str | os.PathLike[str],
    plan: Callable[[Path, Path], Callable[[str], bool]] = lambda *_: lambda _: False,
) -> Iterator[Path]:
    """Yield a temporary directory that becomes `target` when the block succeeds."""
    # Files in an existing target that the block has not written stay, except those that
    # `plan` drops. Between two renames there is no target, but `former_directory`: if
    # the process is killed there, readers find that one, and the next save restores it.
    # Within another such block, the target itself is yielded. A remote target must be
    # new.
    if remote.is_remote(target):
        remote.check_new_address(target)
        with remote.uploaded(target) as path:
            path.mkdir()
            yield path
        return
    path = remote.local_path(target).resolve()
    if is_temporary(path):
        yield path
        return
    _restore(path)
    _check_target(path)
    with folders_above(path), temporary_directory(path) as folder:
        written = folder / path.name
        written.mkdir()
        yield written
        former = former_directory(path)
        try:
            if path.exists():
                _keep_files(path, written, plan(written, path))
                path.rename(former)
            written.rename(path)
        except BaseException:
            _restore(path)
            raise
        with suppress(FileNotFoundError):
            former.rename(folder / "former")


def former_directory(path: Path) -> Path:
    """Return where a directory is while another one takes its place."""
    path = path.resolve()
    return path.with_name(f".{path.name}.keras-albert-former")


def _restore(path: Path) -> None:
    """Undo a replacement that did not end, or remove what one that did has left."""
    former = former_directory(path)
    if former.is_dir():
        if path.exists():
            shutil.rmtree(former, ignore_errors=True)
        else:
            former.rename(path)


def _check_target(path: Path) -> None:
    """Raise early if the target cannot be replaced at the end."""
    if not path.exists():
        return
    if not path.is_dir():
        raise NotADirectoryError(
            f"{path} is a file, but a directory must be written there. Choose another "
            "path."
        )
    if path.is_mount() or path.samefile("."):
        raise OSError(
            f"{path} cannot be replaced, as it is a mount point or the working "
            f"directory. Choose a directory within it, such as {path / 'preset'}."
        )
    if not os.access(path, os.W_OK):
        msg = f"{path} is read-only. Choose another path, or change its permissions."
        raise PermissionError(msg)


def _keep_files(old: Path, new: Path, drops: Callable[[str], bool]) -> None:
    """Copy a directory into another, except for dropped and existing names."""

    def passed_over(directory: str, names: list[str]) -> list[str]:
        found = []
        for name in names:
            here = Path(directory, name)
            inside = here.relative_to(old)
            there = new / inside
            if there.exists() and there.is_dir() != here.is_dir():
                raise ValueError(
                    f"{here} is in the way of a {'file' if here.is_dir() else 'folder'}"
                    " that must be written there. Move it."
                )
            if drops(inside.as_posix()) or there.is_file():
                found.append(name)
        return found

    shutil.copytree(old, new, symlinks=True, ignore=passed_over, dirs_exist_ok=True)
