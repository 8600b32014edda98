"""The version directories of a SavedModel, by a server's rules."""

from pathlib import Path


def served_versions(path: Path) -> dict[int, Path]:
    """Find the versions in a directory.

    Args:
        path: Path. The directory of the model; it need not exist.

    Returns:
        The entries whose names are numbers, by number in ascending order.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for name in ("10", "9", "notes"):
        ...         Path(folder, name).mkdir()
        ...     list(served_versions(Path(folder)))
        [9, 10]
    """
    entries = path.iterdir() if path.exists() else ()
    versions = [p for p in entries if p.name.isascii() and p.name.isdigit()]
    return {int(p.name): p for p in sorted(versions, key=lambda p: int(p.name))}
