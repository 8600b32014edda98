"""Creating the parent folders of a path."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def folders_above(path: Path) -> Iterator[None]:
    """Create the folders above a path, and remove them if the block raises.

    Args:
        path: Path. The path to be written.

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
        # Another process may have written there in the meantime.
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise
