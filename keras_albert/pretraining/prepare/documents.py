"""Reads documents from text files, part by part and line by line."""

import gzip
import hashlib
import json
import os
import tempfile
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from keras_albert.utils.environment import import_package
from keras_albert.utils.remote import address_of, check_new_address, is_remote, uploaded

JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_EXTRA = "keras-albert[pretraining]"


@dataclass(frozen=True)
class InputPart:
    """A range of a file; a compressed file is a single part."""

    path: str
    size: int
    # Seconds, the time of its last change.
    changed: float
    start: int = 0
    # `None` for a compressed file, whose end is unknown.
    end: int | None = None

    @property
    def num_bytes(self) -> int:
        """The number of bytes of the part, compressed if the file is."""
        return (self.size if self.end is None else self.end) - self.start

    @property
    def is_compressed(self) -> bool:
        """Whether the file is compressed with gzip."""
        return self.path.lower().endswith(".gz")

    @property
    def is_json(self) -> bool:
        """Whether each line is a JSON document."""
        return self.path.lower().removesuffix(".gz").endswith(JSON_SUFFIXES)


def find_parts(inputs: Sequence[str], part_size: int) -> list[InputPart]:
    """Find the files, each once, and split them into parts of so many bytes."""
    filesystems = beam_filesystems()
    found: dict[str, Any] = {}
    for pattern, match in zip(inputs, filesystems.match(list(inputs)), strict=True):
        if not match.metadata_list:
            msg = f"{pattern!r} matches no file. Pass text files (.txt, .gz, .jsonl)."
            raise ValueError(msg)
        found |= {file.path: file for file in match.metadata_list}
    parts = []
    for path in sorted(found):
        file = found[path]
        whole = InputPart(path, file.size_in_bytes, file.last_updated_in_seconds or 0)
        if whole.is_compressed:
            parts.append(whole)
            continue
        for start in range(0, whole.size, part_size):
            end = min(start + part_size, whole.size)
            parts.append(InputPart(path, whole.size, whole.changed, start, end))
    return parts


def beam_path(path: str | os.PathLike[str]) -> str:
    """Return a path for Beam; of remote ones, a `Path` has lost a slash."""
    return path if isinstance(path, str) else address_of(path) or os.fspath(path)


@contextmanager
def beam_output(path: str | os.PathLike[str]) -> Iterator[str]:
    """Yield a directory for Beam: a local one, if it is uploaded later."""
    output = beam_path(path)
    if is_remote(output):
        try:
            beam_filesystems().get_filesystem(output)
        except ValueError:
            check_new_address(output)
            with uploaded(output) as local:
                yield str(local)
            return
    yield output


def beam_filesystems() -> Any:
    """Import Beam's filesystems, or name the extra that installs them."""
    name = "apache_beam.io.filesystems"
    return import_package("Preparing texts", _EXTRA, name).FileSystems


# Longer lines are not text; they are skipped without being kept in memory.
MAX_LINE_BYTES = 2**24
_BROKEN_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)
# The first bytes of bzip2, gzip, zstd and PDF, which may have no byte 0 for long.
_BINARY = (b"BZh", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"%PDF-")
_HEAD_BYTES = 1024
# Longer documents are processed in sections, so that no document fills the memory.
SECTION_CHARACTERS = 2**20


class Section(NamedTuple):
    """A document, or a part of a very long one."""

    # 16 bytes, computed from the start of the document.
    key: bytes
    # 0 for the document's first section, and so on.
    number: int
    lines: list[str]


def read_documents(
    part: InputPart,
    text_field: str,
    counters: Counter[str],
    progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Section]:
    """Read the documents that start in a part of a file."""
    # Each document belongs to exactly one part, however the file is split.
    with _open(part) as (file, stream):
        lines = _Lines(stream, part, counters)
        documents = _plain_documents(lines)
        if part.is_json:
            documents = _json_documents(lines, text_field, counters)
        for document in documents:
            yield from _sections(document, counters)
            # The last document may end in the next part.
            progress(min(file.tell() - part.start, part.num_bytes))
    progress(part.num_bytes)


@contextmanager
def _open(part: InputPart) -> Iterator[tuple[Any, Any]]:
    filesystems = beam_filesystems()
    # Beam's reader of compressed files does not limit the length of lines.
    with filesystems.open(part.path, compression_type="uncompressed") as stream:
        if not part.is_compressed:
            _check_text(part, stream)
            yield stream, stream
            return
        with gzip.GzipFile(fileobj=stream) as unpacked:
            with suppress(*_BROKEN_GZIP):
                _check_text(part, unpacked)
            yield stream, unpacked


def _check_text(part: InputPart, stream: Any) -> None:
    """Raise if a file starts as no text does."""
    if part.start:
        return
    try:
        head = stream.read(_HEAD_BYTES)
    finally:
        stream.seek(0)
    if b"\0" in head or head.startswith(_BINARY):
        raise ValueError(
            f"{part.path} is not text in UTF-8, but compressed or binary. Decompress "
            "or convert it; compressed files are read if they are gzip, and end in .gz."
        )


class _Lines:
    """The decoded lines of a file, from the first one that starts in a part."""

    # Yields whether a line starts before the part's end, and its text, or `None` for a
    # line that cannot be read.

    def __init__(
        self, stream: IO[bytes], part: InputPart, counters: Counter[str]
    ) -> None:
        self.part = part
        self._stream = stream
        self._counters = counters

    def __iter__(self) -> Iterator[tuple[bool, str | None]]:
        place, end = self.part.start, self.part.end
        if place:
            # A line that starts before the part belongs to the previous part.
            self._stream.seek(place - 1)
            place += self._skip_line() - 1
        while line := self._read_line():
            is_inside = end is None or place < end
            is_first = place == 0
            place += len(line)
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                place += self._skip_line()
                self._counters["lines dropped: too long"] += 1
                yield is_inside, None
                continue
            try:
                text = line.decode("utf-8-sig" if is_first else "utf-8").strip()
            except UnicodeDecodeError:
                self._counters["lines dropped: not UTF-8"] += 1
                yield is_inside, None
            else:
                yield is_inside, text

    def _read_line(self) -> bytes:
        try:
            return self._stream.readline(MAX_LINE_BYTES)
        except _BROKEN_GZIP:
            self._counters["files dropped from a place on: broken gzip"] += 1
            return b""

    def _skip_line(self) -> int:
        skipped = 0
        while line := self._read_line():
            skipped += len(line)
            if line.endswith(b"\n"):
                break
        return skipped


def _plain_documents(lines: _Lines) -> Iterator[Iterator[str]]:
    """Yield documents as iterators of lines; blank lines separate documents."""
    # A document belongs to the part in which the last blank line before it starts.
    source = iter(lines)
    if lines.part.start:
        # Lines before the first blank line belong to a document of the previous part.
        for is_inside, line in source:
            if not is_inside:
                return
            if line == "":
                break
        else:
            return
    is_over = False

    def document(first: str) -> Iterator[str]:
        nonlocal is_over
        yield first
        for is_inside, line in source:
            if line == "":
                is_over = not is_inside
                return
            if line is not None:
                yield line
        is_over = True

    for is_inside, line in source:
        if line == "":
            if not is_inside:
                return
        elif line is not None:
            yield document(line)
            if is_over:
                return


def _json_documents(
    lines: _Lines, text_field: str, counters: Counter[str]
) -> Iterator[Iterator[str]]:
    for number, (is_inside, line) in enumerate(lines, 1):
        if not is_inside:
            return
        if not line:
            continue
        try:
            document = json.loads(line)
            text = document[text_field]
            # JSON can contain lone surrogates, UTF-8 cannot.
            text.encode("utf-8")
        except (ValueError, RecursionError):
            counters["lines dropped: broken JSON"] += 1
        except (KeyError, TypeError, AttributeError, IndexError) as error:
            if isinstance(error, KeyError) and number == 1 and not lines.part.start:
                # The other lines have the same fields.
                fields = ", ".join(map(repr, list(document)[:9])) or "none"
                raise ValueError(
                    f"{lines.part.path}, line 1 has no field {text_field!r}; its "
                    f"fields are: {fields}. Name the one with the text as `text_field`."
                ) from None
            counters[f"lines dropped: no text in {text_field!r}"] += 1
        else:
            yield iter(text.splitlines())


def _sections(document: Iterator[str], counters: Counter[str]) -> Iterator[Section]:
    key, number = b"", 0
    waiting: list[str] = []

    def section() -> Section:
        nonlocal key
        if not key:
            text = "".join(f"{line}\n" for line in waiting)
            key = hashlib.blake2b(text.encode(), digest_size=16).digest()
        return Section(key, number, waiting)

    size = 0
    for text in filter(None, map(str.strip, document)):
        waiting.append(text)
        size += len(text)
        if size >= SECTION_CHARACTERS:
            yield section()
            waiting, size, number = [], 0, number + 1
    if waiting:
        yield section()
    counters["documents" if waiting or number else "documents dropped: empty"] += 1


# Called with the number of bytes that have been read, and of all bytes.
Progress = Callable[[int, int], None]
_SECONDS = 0.2


@contextmanager
def reported_progress(
    parts: Sequence[InputPart], progress: Progress | None
) -> Iterator[str]:
    """Report the progress of this machine; yield the file of `progress_of_part`."""
    if progress is None:
        yield ""
        return
    total = sum(part.num_bytes for part in parts)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "positions")
        positions = np.memmap(path, np.int64, "w+", shape=(len(parts),))
        is_over = threading.Event()

        def report() -> None:
            while not is_over.wait(_SECONDS):
                progress(int(positions.sum()), total)

        thread = threading.Thread(target=report, daemon=True)
        thread.start()
        try:
            yield str(path)
        finally:
            is_over.set()
            thread.join()
        progress(int(positions.sum()), total)


def progress_of_part(file: str, number: int) -> Callable[[int], None]:
    """Return a function that stores how many bytes were read, if the file exists."""
    if not file or not Path(file).is_file():
        return lambda _: None
    positions = np.memmap(file, np.int64, "r+")

    def store(count: int) -> None:
        positions[number] = count

    return store
