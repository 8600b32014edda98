"""Writing files atomically."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from keras_albert.utils.local_path import local_path
from keras_albert.utils.temporary import temporary_file


@contextmanager
def atomic_file(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary file that becomes `target` when the block succeeds.

    If the block raises, or the process dies, the target is unchanged. Several
    processes may write one target; the last one wins.
    """
    path = local_path(target).absolute()
    with folders_above(path), temporary_file(path) as temporary:
        yield temporary
        # `mkstemp` restricts access to this user; the result has default permissions.
        temporary.chmod(0o666 & ~umask())
        temporary.replace(path)


def check_new_file(path: Path, overwrite: bool = False) -> None:
    """Check that a file can be written, before there is work to lose."""
    if path.is_dir():
        msg = (
            f"{path} is a directory, but a file must be written there. Choose another "
            "path."
        )
        raise IsADirectoryError(msg)
    if path.exists() and not overwrite:
        msg = f"{path} already exists. Choose another path, or pass overwrite=True."
        raise FileExistsError(msg)


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
        msg = f"{file} is a file, and a directory is required. Name another."
        raise NotADirectoryError(msg) from error
    try:
        yield
    except BaseException:
        # Another process may have written there in the meantime.
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise
