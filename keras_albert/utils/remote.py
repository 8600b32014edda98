"""Files of remote storage, such as `s3://bucket/name`, by means of fsspec."""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from keras_albert.utils.environment import import_package

_Path = str | os.PathLike[str]

# One slash, as `Path` joins two; one letter is a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")
# Other schemes of fsspec open archives, caches and pages. A `::` would chain them.
_STORES = (
    *("abfs", "abfss", "az", "gcs", "gs", "hdfs"),
    *("memory", "oci", "oss", "s3", "s3a"),
)
# Libraries retry a silent store for minutes, and wait forever if it stops reading.
_SECONDS_TO_LIST, _SECONDS_TO_COPY = 60, 600
_LEAST_BYTES_PER_SECOND = 50_000

# Who finds one of these finds the rest, so they are uploaded last, in this order.
_LAST = (
    *("*.json", "metadata.json", "saved_model.pb"),
    *("*config.json", "last.safetensors"),
)


def address_of(path: _Path) -> str | None:
    """Return the address that a path is; a `Path` of one has lost a slash."""
    name = os.fspath(path)
    match = _SCHEME.match(name)
    return f"{match[1]}://{name[match.end() :].rstrip('/')}" if match else None


def is_remote(path: _Path) -> bool:
    """Return whether a path is an address that fsspec reads and writes."""
    scheme, _, rest = (address_of(path) or "").partition("://")
    return scheme in _STORES and "::" not in rest


def local_path(path: _Path) -> Path:
    """Return a path, which must not be the address of a remote storage."""
    # `pathlib` takes `gs://bucket/name` for a folder `gs:` of the working directory.
    if address := address_of(path):
        raise ValueError(
            f"{address} is not a path on this machine, where this is read or written. "
            "Pass a local or mounted directory, and copy the files with the tool of "
            "the storage."
        )
    return Path(path)


def output_path(path: _Path) -> Path:
    """Return a path to write to, which may be remote."""
    return Path(path) if is_remote(path) else local_path(path)


def check_output(path: _Path) -> None:
    """Raise if a path is of no storage that can be written to, or not reachable."""
    if is_remote(output_path(path)):
        list_files(path)


def fetch(path: _Path) -> Path:
    """Return a path to read from; what is remote is downloaded, once per content."""
    if not is_remote(path):
        return local_path(path)
    address, files = str(address_of(path)), list_files(path)
    if not files:
        raise FileNotFoundError(f"There is nothing at {address}. Correct the address.")
    key = hashlib.sha256(address.encode())
    for name, described in sorted(files.items()):
        # Of each store something else: the ETag, the generation, the time.
        key.update(f"{name} {sorted(described.items(), key=str)}".encode())
    home = os.environ.get("KERAS_HOME") or Path.home() / ".keras"
    cache = Path(home, "keras_albert", "remote")
    folder = cache / key.hexdigest()[:32]
    name = PurePosixPath(address.partition("://")[2]).name.strip(".") or "files"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".") as temporary:
            whole = Path(temporary, "whole")
            download(address, whole / name, files)
            try:
                whole.rename(folder)
            except OSError:
                # Another process was faster.
                if not folder.is_dir():
                    raise
    return folder / name


def download(address: str, target: Path, files: dict[str, Any]) -> None:
    """Download what `list_files` has found."""
    with _explained(address, "read"):
        store, root = _open(address)
        paths = {(f"{root}/{name}" if name else root): target / name for name in files}
        for path in paths.values():
            path.parent.mkdir(parents=True, exist_ok=True)
        size = sum(described["size"] for described in files.values())
        with _progress(f"reading {address}", size) as shown:
            here = list(map(str, paths.values()))
            seconds = _seconds_for(size)
            _within(seconds, store, "get", list(paths), here, callback=shown)
    for name, described in files.items():
        size = (target / name).stat().st_size
        if size != described["size"]:
            raise ValueError(
                f"{address}/{name} was replaced while it was read: it had "
                f"{described['size']} bytes. Received: {size}. Repeat the call."
            )


def list_files(path: _Path) -> dict[str, dict[str, Any]]:
    """Return what a store knows of files, by their names below an address."""
    # The name of the file at the address itself is empty.
    address = str(address_of(path))
    with _explained(address, "read"):
        store, root = _open(address)
        found = _within(_SECONDS_TO_LIST, store, "find", root, detail=True)
    # Some stores have an empty object for a folder.
    files = {
        name.removeprefix(root).removeprefix("/"): described
        for name, described in found.items()
        if not name.endswith("/")
    }
    for name in files:
        parts = PureWindowsPath(name)
        if parts.anchor or parts.drive or ".." in parts.parts or "\0" in name:
            raise ValueError(
                f"{address} has a file {name!r}, whose name leads out of the directory "
                "that it would be copied to. Rename or remove it."
            )
    return files


def check_new_address(path: _Path) -> None:
    """Raise if there is something at an address, which can also be reached then."""
    if list_files(path):
        raise FileExistsError(
            f"{address_of(path)} exists, and a directory of a remote storage is not "
            "replaced. Choose another one, or remove it."
        )


@contextmanager
def uploaded(path: _Path) -> Iterator[Path]:
    """Yield a local path, whose file or directory is uploaded if the block succeeds."""
    with tempfile.TemporaryDirectory() as temporary:
        local = Path(temporary, PurePosixPath(str(address_of(path))).name)
        yield local
        upload(local, path)


def upload(source: Path, path: _Path, keep: bool = False) -> None:
    """Upload a file or a directory, and last the files by which others find it."""
    # If that fails, what was uploaded of a directory is removed, unless `keep`.
    address = str(address_of(path))
    names = [
        each.relative_to(source).as_posix()
        for each in (source, *source.rglob("*"))
        if each.is_file()
    ]
    first = [name for name in names if not _turn(name)]
    last = sorted(set(names) - set(first), key=lambda x: (_turn(x), -x.count("/"), x))
    size = sum((source / name).stat().st_size for name in names)
    with _explained(address, "written"), _progress(f"writing {address}", size) as shown:
        store, root = _open(address)
        begun: list[str] = []
        try:
            for part in filter(None, (first, *([name] for name in last))):
                here = [str(source / name) for name in part]
                there = [root if name == "." else f"{root}/{name}" for name in part]
                begun += there
                _within(_seconds_for(size), store, "put", here, there, callback=shown)
        except BaseException:
            # Of a single file, the former one is still there.
            if not keep and not source.is_file():
                with suppress(Exception):
                    # By few calls, of which each may take seconds.
                    found = _within(_SECONDS_TO_LIST, store, "find", root)
                    paths = sorted({*begun} & {*found})
                    _within(_seconds_for(0), store, "rm", paths)
            raise


@contextmanager
def _progress(what: str, size: int) -> Iterator[Any]:
    """Yield a callback of fsspec that shows bytes on a terminal after a second."""
    from fsspec.callbacks import Callback  # noqa: PLC0415  (an extra)
    from tqdm import tqdm  # noqa: PLC0415  (seldom needed)

    class Bytes(Callback):
        """Adds up the bytes of all files; fsspec counts each file as a byte, too."""

        def branched(self, *_: Any, **__: Any) -> Any:
            return self

        def relative_update(self, inc: int = 1) -> None:
            bar.update(inc)

    how: Any = {"unit": "B", "unit_scale": True, "leave": False, "delay": 1}
    with tqdm(desc=what, total=size, disable=None, **how) as bar:
        yield Bytes()


def remove(address: str) -> None:
    """Remove the files below an address, if there are any."""
    if list_files(address):
        with _explained(address, "removed"):
            store, root = _open(address)
            _within(_seconds_for(0), store, "rm", root, recursive=True)


def _turn(name: str) -> int:
    base = PurePosixPath(name).name
    return max((i for i, each in enumerate(_LAST, 1) if fnmatch(base, each)), default=0)


def _open(address: str) -> tuple[Any, str]:
    needs, extra = f"Access to {address}", "keras-albert[remote]"
    store, root = import_package(needs, extra, "fsspec.core").url_to_fs(address)
    # Another process may have written in the meantime.
    store.invalidate_cache()
    return store, root.rstrip("/")


def _seconds_for(size: int) -> int:
    return _SECONDS_TO_COPY + size // _LEAST_BYTES_PER_SECOND


def _within(seconds: int, store: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call a method of a store, which must end in that time."""
    if not store.async_impl:
        # It takes no limit.
        return getattr(store, name)(*args, **kwargs)
    from fsspec.asyn import sync  # noqa: PLC0415  (an extra)

    try:
        method = getattr(store, f"_{name}")
        return sync(store.loop, method, *args, timeout=seconds, **kwargs)
    except TimeoutError as error:
        raise TimeoutError(f"not done after {seconds} seconds") from error


@contextmanager
def _explained(address: str, verb: str) -> Iterator[None]:
    """Re-raise any error of a store's library with the address and a remedy."""
    try:
        yield
    except Exception as error:
        line = (str(error).strip().splitlines() or [""])[0]
        reason = f"{address} could not be {verb} ({type(error).__name__}: {line})."
        if isinstance(error, ImportError):
            raise ImportError(f"{reason} Install what it names.") from error
        if isinstance(error, FileNotFoundError):
            raise FileNotFoundError(f"{reason} Correct the address.") from error
        if isinstance(error, PermissionError):
            raise PermissionError(f"{reason} Check the credentials.") from error
        raise ConnectionError(
            f"{reason} Check the address, the credentials and the connection."
        ) from error
