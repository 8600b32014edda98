"""Locks, and temporary directories that are removed even if a process is killed."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Windows has no such module: there and on file systems without locks, two processes
# may write to one output, and nothing removes what a killed process left.
fcntl: Any = import_module("fcntl") if find_spec("fcntl") else None

_SUFFIX = ".keras-albert"
# File systems allow names of 255 bytes.
_MAX_NAME = 50


@contextmanager
def temporary_directory(target: Path) -> Iterator[Path]:
    """Make a private directory beside a path, and remove it when the block ends."""
    # The locks of a killed process end: the next one here removes what has no lock.
    # The folder of a remote path is not on this machine.
    parent = target.parent if target.parent.is_dir() else Path(tempfile.gettempdir())
    for left in parent.glob(f".*{_SUFFIX}/"):
        with suppress(OSError), _lock(left):
            shutil.rmtree(left)
    with ExitStack() as opened:
        prefix = f".{target.name[:_MAX_NAME]}."
        new = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        path = new.with_name(new.name + _SUFFIX)
        opened.callback(shutil.rmtree, path, ignore_errors=True)
        # Before others take it for one that was left.
        with suppress(OSError):
            opened.enter_context(_lock(new))
        yield new.rename(path)


def is_temporary(path: Path) -> bool:
    """Return whether a path is inside of a temporary directory, or one itself."""
    return any(each.startswith(".") and each.endswith(_SUFFIX) for each in path.parts)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file or a directory against other processes during a block."""
    with ExitStack() as opened:
        try:
            opened.enter_context(_lock(path.resolve()))
        except BlockingIOError:
            raise ValueError(
                f"{path} is in use: another process writes to it. Wait until it has "
                "ended, or choose another output."
            ) from None
        except OSError:
            pass
        yield


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    if fcntl is None:
        raise OSError("This system has no locks.")
    # Links and pipes are not ours: follow none, and wait for none.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


@contextmanager
def folders_above(path: Path) -> Iterator[None]:
    """Create the folders above a path, and remove them if the block raises."""
    missing = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        # Another process may have written there in the meantime.
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise
