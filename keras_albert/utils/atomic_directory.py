"""Writing directories atomically."""

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from keras_albert.utils.atomic_file import folders_above, umask
from keras_albert.utils.local_path import local_path
from keras_albert.utils.temporary import temporary_directory

# The temporary directories of open blocks.
_OPEN: ContextVar[tuple[Path, ...]] = ContextVar("open_directories", default=())


def _replaces_nothing(written: Path, target: Path) -> Callable[[str], bool]:
    return lambda name: False


@contextmanager
def atomic_directory(
    target: str | os.PathLike[str],
    plan: Callable[[Path, Path], Callable[[str], bool]] = _replaces_nothing,
) -> Iterator[Path]:
    """Yield a temporary directory that becomes `target` when the block succeeds.

    At any time `target` is either the old directory or the new one: an existing target
    is swapped with the temporary directory in one step. Its other files are kept: only
    files that the block has written are replaced. If the block raises, or the process
    dies, the target is unchanged.

    A few file systems, such as some network file systems, cannot swap directories.
    There the old one is first renamed to `.NAME.former.keras-albert`, where
    `former_directory` finds it if the process dies at this moment. `plan` may refuse
    the target before anything moves, and returns which of its other files to remove.
    Within another such block for it, the target itself is yielded.
    """
    path = local_path(target).resolve()
    if path in _OPEN.get():
        yield path
        return
    _restore_former(path)
    _check_target(path)
    with folders_above(path), temporary_directory(path) as temporary:
        reset = _OPEN.set((*_OPEN.get(), temporary))
        try:
            yield temporary
        finally:
            _OPEN.reset(reset)
        # `mkdtemp` restricts access to this user; the result has default permissions.
        temporary.chmod(0o777 & ~umask())
        if path.exists():
            _replace(path, temporary, plan(temporary, path))
        else:
            temporary.replace(path)


def former_directory(path: Path) -> Path:
    """Return the name of a directory while it is being replaced.

    It exists only where directories cannot be swapped.
    """
    path = path.resolve()
    return path.parent / f".{path.name}.former.keras-albert"


def _restore_former(path: Path) -> None:
    former = former_directory(path)
    if former.is_dir():
        if path.exists():
            shutil.rmtree(former, ignore_errors=True)
        else:
            former.rename(path)


def _check_target(path: Path) -> None:
    """Raise early if the target cannot be replaced at the end."""
    if path.exists() and not path.is_dir():
        msg = (
            f"{path} is a file, but a directory must be written there. Choose another "
            "path."
        )
        raise NotADirectoryError(msg)
    if path.is_mount():
        msg = (
            f"{path} is a mount point, which cannot be replaced in one step. Choose a "
            f"directory within it, for instance {path / 'preset'}."
        )
        raise OSError(msg)
    if path.exists() and not os.access(path, os.W_OK):
        msg = f"{path} is read-only. Choose another path, or change its permissions."
        raise PermissionError(msg)


def _replace(path: Path, written: Path, drops: Callable[[str], bool]) -> None:
    _check_kinds(path, written)
    try:
        working_directory = Path.cwd()
    except OSError:
        working_directory = None
    _carry(path, written, drops)
    shutil.copystat(path, written)
    owner = path.stat()
    with suppress(OSError):
        os.chown(written, owner.st_uid, owner.st_gid)
    if swap_directories(written, path):
        former = written
    else:
        former = former_directory(path)
        path.rename(former)
        written.rename(path)
    # Files that other processes have written there in the meantime.
    _carry(former, path, drops)
    if working_directory is not None and working_directory.is_relative_to(path):
        os.chdir(working_directory)
    shutil.rmtree(former, ignore_errors=True)


def _check_kinds(path: Path, written: Path) -> None:
    for entry in written.rglob("*"):
        there = path / entry.relative_to(written)
        if entry.is_dir() and there.exists() and not there.is_dir():
            msg = (
                f"{there} is a file, but a directory must be written there. Move the "
                "file."
            )
            raise NotADirectoryError(msg)
        if not entry.is_dir() and there.is_dir():
            msg = (
                f"{there} is a directory, but a file must be written there. Move the "
                "directory."
            )
            raise IsADirectoryError(msg)


def _carry(source: Path, target: Path, drops: Callable[[str], bool]) -> None:
    """Link files of one directory into another, except dropped or existing names."""

    def passed_over(directory: str, names: list[str]) -> list[str]:
        inside = Path(directory).relative_to(source)
        return [
            name
            for name in names
            if drops((inside / name).as_posix())
            or (
                os.path.lexists(target / inside / name)
                and not (target / inside / name).is_dir()
            )
        ]

    shutil.copytree(
        source,
        target,
        symlinks=True,
        ignore=passed_over,
        copy_function=_link,
        dirs_exist_ok=True,
    )


def _link(source: str, target: str) -> None:
    """Hard-link a file, or copy it where hard links are not supported."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        # Another file system is mounted there, where no preset can be saved.
        if error.errno == errno.EXDEV:
            raise
        shutil.copy2(source, target, follow_symlinks=False)


_CURRENT_DIRECTORY = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS
# The errors of a system call that the file system does not support.
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def swap_directories(first: Path, second: Path) -> bool:
    """Swap two directories in one step, if the system supports it.

    At any time, each path is one complete directory or the other. Local file systems of
    Linux and macOS support this; network and FUSE file systems often do not. Returns
    whether they were swapped; if not, nothing has changed.
    """
    if os.name != "posix":
        return False
    paths = os.fsencode(first), os.fsencode(second)
    library = ctypes.CDLL(None, use_errno=True)
    if hasattr(library, "renameat2"):
        here = _CURRENT_DIRECTORY
        failed = library.renameat2(here, paths[0], here, paths[1], _EXCHANGE)
    elif hasattr(library, "renamex_np"):
        failed = library.renamex_np(*paths, _EXCHANGE)
    else:
        return False
    if failed and (number := ctypes.get_errno()) not in _UNKNOWN:
        raise OSError(number, os.strerror(number), str(first), None, str(second))
    return not failed
