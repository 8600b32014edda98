"""Error messages for exports that the system refuses to write."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def explained_errors(target: Path) -> Iterator[None]:
    """Re-raise an `OSError` with the export that failed and how to fix it.

    Args:
        target: Path. The export, which is written completely or not at all.

    Raises:
        OSError: If the block raises one; of the same class and number.

    Example:
        >>> with explained_errors(Path("model.onnx")):
        ...     raise PermissionError(13, "Permission denied")
        Traceback (most recent call last):
        ...
        PermissionError: [Errno 13] Permission denied: nothing was written to model.onnx. Name a place that you may write to, with room for the model twice
    """  # noqa: E501  (the message is one line)
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        msg = (
            f"{error.strerror}: nothing was written to {target}. Name a place that you "
            "may write to, with room for the model twice"
        )
        raise OSError(error.errno, msg, error.filename) from error
