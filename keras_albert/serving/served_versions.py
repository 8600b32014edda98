"""The versions of a SavedModel, as a server counts them."""

from pathlib import Path


def served_versions(path: Path) -> dict[int, Path]:
    """Find the versions below a directory.

    Args:
        path: Path. The directory of the model; it need not be there.

    Returns:
        Their directories by number, rising: what has a number for a name.

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
