"""Swapping two directories."""

import ctypes
import errno
import os
from pathlib import Path

_CURRENT_DIRECTORY = -100  # AT_FDCWD
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, and RENAME_SWAP of macOS
# The errors of a system call that the file system does not support.
_UNKNOWN = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def swap_directories(first: Path, second: Path) -> bool:
    """Swap two directories in one step, if the system supports it.

    At any time, each path is one complete directory or the other. Local file systems
    of Linux and macOS support this; network and FUSE file systems often do not.

    Args:
        first: Path. A directory.
        second: Path. Another one, in the same file system.

    Returns:
        Whether they were swapped. If not, nothing has changed.

    Raises:
        OSError: If swapping fails, for instance because one is a mount point.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as parent:
        ...     old, new = Path(parent, "old"), Path(parent, "new")
        ...     old.mkdir(), new.mkdir(), (new / "a.txt").touch()
        ...     swapped = swap_directories(old, new)
        ...     print((old / "a.txt").exists() == swapped)
        (None, None, None)
        True
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
