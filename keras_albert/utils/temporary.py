"""Temporary files and directories that are removed even if a process is killed."""

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Windows has no such module; abandoned files are not removed there.
fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None

_SUFFIX = ".keras-albert"
_NAME = re.compile(rf"\..*\.[a-z0-9_]{{8}}{re.escape(_SUFFIX)}")
# File systems allow names of 255 bytes.
_LONGEST_NAME = 50


@contextmanager
def temporary_directory(beside: Path) -> Iterator[Path]:
    """Create a hidden directory, and remove it when the block ends.

    If the process is killed, the directory stays, and the next process that writes to
    the same parent removes it: a lock, which ends with its process, tells abandoned
    directories from those in use. It may be moved away.
    """
    with _temporary(beside, tempfile.mkdtemp) as path:
        yield path


@contextmanager
def temporary_file(beside: Path) -> Iterator[Path]:
    """Create a hidden, empty file, and remove it when the block ends."""

    def make(prefix: str, suffix: str, dir: Path) -> str:  # noqa: A002  (tempfile's)
        handle, name = tempfile.mkstemp(prefix=prefix, suffix=suffix, dir=dir)
        os.close(handle)
        return name

    with _temporary(beside, make) as path:
        yield path


@contextmanager
def _temporary(beside: Path, make: Callable[..., str]) -> Iterator[Path]:
    _clear_abandoned(beside.parent)
    path, handle = _make_locked(beside, make)
    try:
        yield path
    finally:
        _remove(path)
        if handle is not None:
            os.close(handle)


def _make_locked(beside: Path, make: Callable[..., str]) -> tuple[Path, int | None]:
    prefix = f".{beside.name[:_LONGEST_NAME]}."
    while True:
        path = Path(make(prefix=prefix, suffix=_SUFFIX, dir=beside.parent))
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
    """Lock a file or a directory until this process ends, or closes the handle.

    Returns `None` on Windows, which has no such locks; raises `BlockingIOError` if
    another process has it.
    """
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
    """Lock a file or a directory against other processes during a block; see `lock`.

    It has no effect on Windows, and on file systems without locks.
    """
    handle = None
    try:
        handle = lock(path.resolve())
    except BlockingIOError:
        msg = (
            f"{path} is in use: another process writes to it. Wait until it has ended, "
            "or choose another output."
        )
        raise ValueError(msg) from None
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
