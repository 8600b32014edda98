"""Folders that are needed on the way to a file."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def folders_above(path: Path) -> Iterator[None]:
    """Create the folders above a path, for as long as the block goes well.

    Args:
        path: Path. What is to be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as parent:
        ...     try:
        ...         with folders_above(Path(parent, "a", "b", "file")):
        ...             raise OSError
        ...     except OSError:
        ...         print(list(Path(parent).iterdir()))
        []
    """
    missing = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        # Somebody else may have written there meanwhile.
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise
