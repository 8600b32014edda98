"""Files of remote storage, such as `s3://bucket/name`, by means of fsspec."""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from keras_albert.utils.environment import import_package
from keras_albert.utils.temporary import temporary_directory

_Path = str | os.PathLike[str]

# One slash, as `Path` joins two; one letter is a drive of Windows.
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")
# `user:password@`; the digits after a colon are a port.
_SECRET = re.compile(r"[^/@]*:(?!\d+/)[^@]*@")
# Other schemes of fsspec open archives, caches and pages. A `::` would chain them.
_STORES = (
    *("abfs", "abfss", "az", "gcs", "gs", "hdfs"),
    *("memory", "oci", "oss", "s3", "s3a"),
)
# Libraries retry a silent store for minutes, and wait forever if it stops reading.
_SECONDS_TO_LIST, _SECONDS_TO_COPY = 60, 600
_LEAST_BYTES_PER_SECOND = 50_000

# By the kind of an error, the first that fits.
_REMEDIES: dict[type[Exception], str] = {
    ImportError: "Install what it names.",
    FileNotFoundError: "Correct the address.",
    PermissionError: "Check the credentials.",
}


def address_of(path: _Path) -> str | None:
    """Return the address that a path is; a `Path` of one has lost a slash."""
    name = os.fspath(path)
    match = _SCHEME.match(name)
    if match is None:
        return None
    if _SECRET.match(name, match.end()):
        raise ValueError(
            "An address must not contain a password or a key. Set it as the storage's "
            "library expects it, for instance in AWS_SECRET_ACCESS_KEY."
        )
    return f"{match[1]}://{name[match.end() :].rstrip('/')}"


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
    folder = Path(home, "keras_albert", "remote", key.hexdigest()[:32])
    name = PurePosixPath(address.partition("://")[2]).name.strip(".") or "files"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with temporary_directory(folder) as temporary:
            download(address, temporary / "all" / name, files)
            with suppress(OSError):  # Another process was faster.
                (temporary / "all").replace(folder)
    return folder / name


def download(address: str, target: Path, files: dict[str, Any]) -> None:
    """Download what `list_files` has found."""
    paths = [target / name for name in files]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    size = sum(described["size"] for described in files.values())
    with _explained(address, "read"), _progress(f"reading {address}", size) as shown:
        store, root = _open(address)
        there = [f"{root}/{name}" if name else root for name in files]
        here = list(map(str, paths))
        _within(_seconds_for(size), store, "get", there, here, callback=shown)
    for path, described in zip(paths, files.values(), strict=True):
        if path.stat().st_size != described["size"]:
            raise ValueError(
                f"{address} was replaced while it was read: {path.name} has another "
                "size. Repeat the call."
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
    with temporary_directory(Path(path)) as folder:
        local = folder / PurePosixPath(str(address_of(path))).name
        yield local
        try:
            upload(local, path)
        except BaseException:
            # Of a single file, the former one is still there.
            if local.is_dir():
                with suppress(Exception):
                    remove(path)
            raise


def upload(source: Path, path: _Path) -> None:
    """Upload a file or a directory, and last the files by which others find it."""
    address = str(address_of(path))
    files = [each for each in (source, *source.rglob("*")) if each.is_file()]
    size = sum(each.stat().st_size for each in files)
    with _explained(address, "written"), _progress(f"writing {address}", size) as shown:
        store, root = _open(address)
        for _, part in groupby(sorted(files, key=_turn), _turn):
            here = list(part)
            names = (each.relative_to(source).as_posix() for each in here)
            there = [root if name == "." else f"{root}/{name}" for name in names]
            paths = list(map(str, here))
            _within(_seconds_for(size), store, "put", paths, there, callback=shown)


def _turn(path: Path) -> int:
    """Return 0, 1 or 2: who finds a file of the last turn finds all of them."""
    name = path.name
    return name.endswith((".json", ".pb")) + name.endswith("config.json")


@contextmanager
def _progress(what: str, size: int) -> Iterator[Any]:
    """Yield a callback of fsspec that shows bytes on a terminal after a second."""
    from fsspec.callbacks import Callback  # noqa: PLC0415  (an extra)
    from tqdm import tqdm  # noqa: PLC0415  (seldom needed)

    class Bytes(Callback):
        """Adds up the bytes of all files; fsspec also counts each file as a byte."""

        def branched(self, *_: Any, **__: Any) -> Any:
            return self

        def relative_update(self, inc: int = 1) -> None:
            bar.update(inc)

    how: Any = {"unit": "B", "unit_scale": True, "leave": False, "delay": 1}
    with tqdm(desc=what, total=size, disable=None, **how) as bar:
        yield Bytes()


def remove(path: _Path) -> None:
    """Remove the files below an address, if there are any."""
    address = str(address_of(path))
    if list_files(address):
        with _explained(address, "removed"):
            store, root = _open(address)
            _within(_seconds_for(0), store, "rm", root, recursive=True)


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
        kind: type[Exception] = ConnectionError
        remedy = "Check the address, the credentials and the connection."
        for each, its_remedy in _REMEDIES.items():
            if isinstance(error, each):
                kind, remedy = each, its_remedy
        raise kind(
            f"{address} could not be {verb} ({type(error).__name__}: {line}). {remedy}"
        ) from error
