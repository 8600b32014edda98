"""Directories that appear whole or not at all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keras_albert.presets.atomic_file import umask
from keras_albert.presets.folders_above import folders_above


@contextmanager
def atomic_directory(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary directory that becomes `target` when the block ends well.

    A new target appears in one step. Into a target that exists, each file is moved
    in one step and replaces its namesake; other files there stay. If the block
    raises, or the process dies, the target is what it was.

    Args:
        target: string or path. The directory to write.

    Yields:
        The temporary directory, beside the target.

    Raises:
        NotADirectoryError: If `target` is a file.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from keras_albert.presets.atomic_directory import atomic_directory
        >>> with tempfile.TemporaryDirectory() as parent:
        ...     with atomic_directory(f"{parent}/new") as directory:
        ...         _ = (directory / "a.txt").write_text("whole")
        ...     print(Path(parent, "new", "a.txt").read_text())
        whole
    """
    path = Path(target).absolute()
    if path.exists() and not path.is_dir():
        msg = f"{path} is a file, and a directory is to be written. Name another path."
        raise NotADirectoryError(msg)
    with folders_above(path):
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            yield temporary
            # `mkdtemp` keeps others out; what we hand over has ordinary permissions.
            temporary.chmod(0o777 & ~umask())
            if path.exists():
                _move_files(temporary, path)
            else:
                temporary.replace(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _move_files(source: Path, target: Path) -> None:
    for directory, _, files in os.walk(source):
        into = target / Path(directory).relative_to(source)
        into.mkdir(exist_ok=True)
        for file in files:
            (Path(directory) / file).replace(into / file)
