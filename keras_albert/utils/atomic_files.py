"""Files and directories that are written completely or not at all.

Temporary ones are removed even if a process is killed.
"""

import contextlib
import ctypes
import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from keras_albert.utils import remote

# Windows has no such module; abandoned files are not removed there.
fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None

_SUFFIX = ".keras-albert"
_NAME = re.compile(rf"\..*\.[a-z0-9_]{{8}}{re.escape(_SUFFIX)}")
# File systems allow names of 255 bytes.
_MAX_NAME = 50


@contextmanager
def temporary_directory(target: Path) -> Iterator[Path]:
    """Create a hidden directory, and remove it when the block ends."""
    # If the process is killed, the next one that writes to the same parent removes it:
    # a lock, which ends with its process, tells abandoned ones from those in use.
    if remote.is_remote(target):
        with tempfile.TemporaryDirectory() as temporary:
            yield Path(temporary)
        return
    with _temporary(target, tempfile.mkdtemp) as path:
        yield path


@contextmanager
def temporary_file(target: Path) -> Iterator[Path]:
    """Create a hidden, empty file, and remove it when the block ends."""

    def make(**where: Any) -> str:
        handle, path = tempfile.mkstemp(**where)
        os.close(handle)
        return str(path)

    with _temporary(target, make) as path:
        yield path


@contextmanager
def _temporary(target: Path, make: Callable[..., str]) -> Iterator[Path]:
    _clear_abandoned(target.parent)
    path, handle = _make_locked(target, make)
    try:
        yield path
    finally:
        _remove(path)
        if handle is not None:
            os.close(handle)


def _make_locked(target: Path, make: Callable[..., str]) -> tuple[Path, int | None]:
    prefix = f".{target.name[:_MAX_NAME]}."
    while True:
        path = Path(make(prefix=prefix, suffix=_SUFFIX, dir=target.parent))
        try:
            handle = lock(path)
        except FileNotFoundError:
            continue
        except OSError:
            # The file system has no locks: abandoned files are never removed there.
            return path, None
        # Another process may have removed it as abandoned before it was locked.
        with contextlib.suppress(FileNotFoundError):
            if handle is None or os.path.samestat(path.lstat(), os.fstat(handle)):
                return path, handle
        os.close(handle)  # type: ignore[arg-type]


def _clear_abandoned(parent: Path) -> None:
    """Remove the temporary files of killed processes in a directory."""
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(parent) if _NAME.fullmatch(name)]
        for name in names:
            # Fails if a process uses it, and so has its lock.
            with contextlib.suppress(OSError):
                handle = lock(parent / name)
                _remove(parent / name)
                os.close(handle)  # type: ignore[arg-type]


def lock(path: Path) -> int | None:
    """Lock a file or a directory until this process ends; `None` on Windows."""
    if fcntl is None:
        return None
    # This module makes neither links nor pipes: follow no link, wait for no pipe.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file or a directory against other processes during a block; see `lock`."""
    # It has no effect on Windows, and on file systems without locks.
    handle = None
    try:
        handle = lock(path.resolve())
    except BlockingIOError:
        raise ValueError(
            f"{path} is in use: another process writes to it. Wait until it has ended, "
            "or choose another output."
        ) from None
    except OSError:
        # The file system has no locks.
        pass
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


@contextmanager
def atomic_file(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file that becomes `target` when the block succeeds."""
    # Several processes may write one target; the last one wins. Stores of objects show
    # a file when all of it is there.
    if remote.is_remote(target):
        remote.list_files(target)  # It is reached before the work.
        with remote.uploaded(target) as path, atomic_file(path) as temporary:
            yield temporary
        return
    path = remote.local_path(target).absolute()
    with folders_above(path), temporary_file(path) as temporary:
        yield temporary
        # `mkstemp` restricts access to this user; the result has default permissions.
        temporary.chmod(0o666 & ~umask())
        temporary.replace(path)


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


def umask() -> int:
    """Return the umask of this process: permissions that its new files lack."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def folders_above(path: Path) -> Iterator[None]:
    """Create the folders above a path, and remove them if the block raises."""
    missing = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        file = next(each for each in path.parents if each.is_file())
        msg = f"{file} is a file, but must be a directory. Choose another path."
        raise NotADirectoryError(msg) from error
    try:
        yield
    except BaseException:
        # Another process may have written there in the meantime.
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise


# The temporary directories of open blocks.
_OPEN: ContextVar[tuple[Path, ...]] = ContextVar("open_directories", default=())


@contextmanager
def atomic_directory(
    target: str | os.PathLike[str],
    plan: Callable[[Path, Path], Callable[[str], bool]] = lambda *_: lambda _: False,
) -> Iterator[Path]:
    """Yield a temporary directory that becomes `target` when the block succeeds."""
    # An existing target is swapped with it in one step, and keeps its files that the
    # block has not written, except those that `plan` drops. Some network file systems
    # cannot swap: there the old one is renamed first, to `former_directory`, where it
    # is found if the process dies at this moment. Within another such block, the target
    # itself is yielded. A remote target must be new; see `upload` for the order of its
    # files.
    if remote.is_remote(target):
        remote.check_new_address(target)
        with remote.uploaded(target) as path, atomic_directory(path) as temporary:
            yield temporary
        return
    path = remote.local_path(target).resolve()
    if path in _OPEN.get():
        yield path
        return
    former = former_directory(path)
    if former.is_dir():
        if path.exists():
            shutil.rmtree(former, ignore_errors=True)
        else:
            former.rename(path)
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
    """Return a directory's name while it is replaced, where none can be swapped."""
    path = path.resolve()
    return path.parent / f".{path.name}.former.keras-albert"


def _check_target(path: Path) -> None:
    """Raise early if the target cannot be replaced at the end."""
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(
            f"{path} is a file, but a directory must be written there. Choose another "
            "path."
        )
    if path.is_mount():
        raise OSError(
            f"{path} is a mount point, which cannot be replaced in one step. Choose a "
            f"directory within it, for instance {path / 'preset'}."
        )
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
            raise NotADirectoryError(
                f"{there} is a file, but a directory must be written there. Move the "
                "file."
            )
        if not entry.is_dir() and there.is_dir():
            raise IsADirectoryError(
                f"{there} is a directory, but a file must be written there. Move the "
                "directory."
            )


def _carry(source: Path, target: Path, drops: Callable[[str], bool]) -> None:
    """Link files of one directory into another, except dropped or existing names."""

    def is_passed_over(name: Path) -> bool:
        there = target / name
        exists = os.path.lexists(there) and not there.is_dir()
        return exists or drops(name.as_posix())

    def passed_over(directory: str, names: list[str]) -> list[str]:
        inside = Path(directory).relative_to(source)
        return [name for name in names if is_passed_over(inside / name)]

    how: Any = {"symlinks": True, "ignore": passed_over, "dirs_exist_ok": True}
    shutil.copytree(source, target, copy_function=_link, **how)


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
    """Swap two directories in one step, if the system supports it."""
    # Local file systems of Linux and macOS do; network and FUSE file systems often not.
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
