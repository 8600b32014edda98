"""The files of prepared data: examples in Arrow files, and their metadata."""

import json
import os
import struct
import threading
import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from keras_albert.text.masking import RowDraws
from keras_albert.text.packing import TokenRows
from keras_albert.types import Int64Array, IntArray
from keras_albert.utils.arguments import (
    MAX_TOKENS,
    check_at_least,
    check_at_most,
    check_positive,
)
from keras_albert.utils.environment import import_package
from keras_albert.utils.reading import parse_json, reading

METADATA_FILE = "metadata.json"
VOCABULARY_FILE = "vocabulary.spm"
FORMAT_VERSION = 2

Split: TypeAlias = Literal["train", "held_out"]
SPLITS: tuple[Split, ...] = get_args(Split)


def shard_name(split: Split, fingerprint: str) -> str:
    """Return the file name of a shard, as train-5d41402abc4b2a76.arrow."""
    return f"{split}-{fingerprint}.arrow"


@dataclass(frozen=True)
class PreparedMetadata:
    """The metadata of prepared examples."""

    sequence_length: int
    vocabulary_size: int
    # The files of each split, in order.
    shards: dict[str, list[str]]
    settings: dict[str, Any] = field(default_factory=dict)
    # Documents, sentences, tokens and examples, and what was dropped, by reason.
    counters: dict[str, int] = field(default_factory=dict)
    # Compressed files that are damaged, and were read up to the damage.
    broken_files: list[str] = field(default_factory=list)
    # The facts of each file.
    files: dict[str, dict[str, int]] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the metadata as JSON."""
        return json.dumps({"format_version": FORMAT_VERSION} | asdict(self), indent=2)

    @classmethod
    def read(cls, directory: Path) -> "PreparedMetadata":
        """Read the metadata of a directory."""
        path = directory / METADATA_FILE
        if not path.is_file():
            raise ValueError(
                f"{directory} contains no {METADATA_FILE}: the preparation of texts "
                "was not started or not completed. Run `keras-albert prepare`."
            )
        with reading(path, "Prepare the texts again."):
            stored = parse_json(path.read_bytes())
            version = stored.pop("format_version")
        if version != FORMAT_VERSION:
            raise ValueError(
                f"{path} has format {version}, but this version of keras_albert reads "
                f"{FORMAT_VERSION}. Update keras_albert, or prepare the texts again."
            )
        with reading(path, "Prepare the texts again."):
            metadata = cls(**stored)
            metadata._check()
        return metadata

    def _check(self) -> None:
        check_positive(sequence_length=self.sequence_length)
        check_at_most(MAX_TOKENS, sequence_length=self.sequence_length)
        check_positive(vocabulary_size=self.vocabulary_size)
        for name in [*self.shards["train"], *self.shards["held_out"]]:
            if os.path.basename(name) != name:
                raise ValueError(f"{name} is not the name of a file here")
            check_at_least(0, **{each: self.files[name][each] for each in _FACTS})


# The facts of each file in the metadata.
_FACTS = ("bytes", "rows", "tokens")
# Up to this size, as in all released vocabularies, token ids fit into two bytes.
_MAX_SHORT_VOCABULARY = 2**16
# The number of examples in a record batch; a file has one or several.
BATCH_ROWS = 4096
_REMEDY = "Copy it again, or prepare the texts again; complete shards are kept."


class Example(NamedTuple):
    """Two consecutive segments of a document, in order and unmasked."""

    # The first segment, then the second.
    token_ids: IntArray
    # The number of tokens in the first segment.
    boundary: int
    # A 64-bit number that identifies the document.
    document: int


# A file stores of an example, besides its ids, where the ids are in the record
# batch, and a checksum of everything, checked whenever an example is read. One column,
# since each read of a row costs as much as its tokens.
_HEAD = np.dtype(
    [
        *(("start", "<u4"), ("end", "<u4"), ("boundary", "<u4")),
        *(("document", "<u8"), ("checksum", "<u4")),
    ]
)
_CHECKED = _HEAD.itemsize - 4


class ExampleWriter:
    """Writes a file of examples, with at most some thousands in memory."""

    def __init__(self, stream: IO[bytes], vocabulary_size: int, name: str) -> None:
        pa = self._pa = arrow()
        ids = pa.uint16() if vocabulary_size <= _MAX_SHORT_VOCABULARY else pa.int32()
        self._schema = pa.schema(
            [
                pa.field("token_ids", pa.list_(pa.field("item", ids, False)), False),
                pa.field("head", pa.binary(_HEAD.itemsize), False),
            ]
        )
        self._sink = self._pa.PythonFile(stream, "w")
        self._writer = self._pa.ipc.new_file(self._sink, self._schema)
        self._name = name
        self._waiting: list[Example] = []
        self.facts = dict.fromkeys(_FACTS, 0)

    def add(self, example: Example) -> None:
        """Add an example."""
        self._waiting.append(example)
        if len(self._waiting) == BATCH_ROWS:
            self._write()

    def close(self) -> None:
        """Write the remaining examples and the file's end; the stream stays open."""
        if self._waiting:
            self._write()
        self._writer.close()
        self.facts["bytes"] = self._sink.tell()

    def _write(self) -> None:
        batch = _record_batch(self._pa, self._schema, self._waiting, self._name)
        self._writer.write_batch(batch)
        self.facts["rows"] += len(self._waiting)
        self.facts["tokens"] += sum(len(each.token_ids) for each in self._waiting)
        self._waiting = []


class _Layout(NamedTuple):
    """Where the columns of a file start, for each of its record batches."""

    # The number of rows before each batch, and in total.
    before: list[int]
    # The bytes before the ids and the heads of each batch.
    places: list[tuple[int, int]]
    id_type: "np.dtype[Any]"


class ExampleFile:
    """A file of examples, which is read row by row and not mapped into memory."""

    # Mapped pages would count as memory of the process, and a file that is cut short
    # would kill it.

    def __init__(self, path: str, facts: Mapping[str, int]) -> None:
        self._descriptor: int | None = None
        self._layout: _Layout | None = None
        self.path = path
        self._seed = zlib.crc32(os.path.basename(path).encode())
        self._facts = facts
        self._size = os.path.getsize(path)
        self._compare(bytes=self._size)

    def _compare(self, **found: int) -> None:
        for name, value in found.items():
            if self._facts[name] != value:
                raise ValueError(
                    f"{self.path} is not the file that was prepared: its {name} should "
                    f"be {self._facts[name]}. Received: {value}. {_REMEDY}"
                )

    def __len__(self) -> int:
        return self._facts["rows"]

    @property
    def num_tokens(self) -> int:
        """The number of tokens in all examples."""
        return self._facts["tokens"]

    @property
    def layout(self) -> _Layout:
        """Where the columns start, found when the first row is read."""
        if self._layout is None:
            pa = arrow()
            try:
                self._layout = _find_columns(pa, self.path)
            except (pa.ArrowInvalid, OSError, LookupError, AttributeError) as error:
                raise ValueError(
                    f"{self.path} is damaged, or not a file of examples ({error}). "
                    f"{_REMEDY}"
                ) from error
            self._compare(rows=self._layout.before[-1])
        return self._layout

    @property
    def documents(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """The document of each example, uint64 `(rows,)`."""
        before, places, _ = self.layout
        sizes = _HEAD.itemsize * np.diff(before)
        parts = map(self._read, sizes.tolist(), (heads for _, heads in places))
        return np.frombuffer(b"".join(parts), _HEAD)["document"]

    def document(self, row: int) -> int:
        """Return the document of an example."""
        return int(np.frombuffer(self._head(*self._find(row)), _HEAD)["document"][0])

    def segments(self, row: int) -> tuple[IntArray, IntArray]:
        """Return both segments of an example."""
        batch, within = self._find(row)
        head = self._head(batch, within)
        start, end, boundary, _, checksum = _UNPACK(head)
        dtype = self.layout.id_type
        place = self.layout.places[batch][0] + start * dtype.itemsize
        size = (end - start) * dtype.itemsize
        is_inside = 0 <= size <= self._size - place
        ids = self._read(size, place) if is_inside else b""
        if checksum != _checksum(ids, head[:_CHECKED], self._seed):
            raise ValueError(
                f"{self.path} is damaged, or another file: example {within} of record "
                f"batch {batch} has another checksum. {_REMEDY}"
            )
        found = np.frombuffer(ids, dtype)
        return found[:boundary], found[boundary:]

    def _head(self, batch: int, row: int) -> bytes:
        size = _HEAD.itemsize
        return self._read(size, self.layout.places[batch][1] + row * size)

    def close(self) -> None:
        """Close the file, until it is read again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()

    def _find(self, row: int) -> tuple[int, int]:
        before = self.layout.before
        batch = bisect_right(before, row) - 1
        return batch, row - before[batch]

    def _read(self, size: int, place: int) -> bytes:
        if self._descriptor is None:
            # Windows would convert line ends.
            self._descriptor = os.open(
                self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0)
            )
        if hasattr(os, "pread"):
            content = os.pread(self._descriptor, size, place)
        else:  # Windows
            os.lseek(self._descriptor, place, os.SEEK_SET)
            content = os.read(self._descriptor, size)
        if len(content) < size:
            found = os.fstat(self._descriptor).st_size
            raise ValueError(
                f"{self.path} was cut from {self._size:,} to {found:,} bytes while it "
                f"was in use. {_REMEDY}"
            )
        return content


_UNPACK = struct.Struct("<IIIQI").unpack


def _find_columns(pa: Any, path: str) -> _Layout:
    with pa.memory_map(path) as source:
        start = source.read_buffer().address
        file = pa.ipc.open_file(source)
        batches = [file.get_batch(i) for i in range(file.num_record_batches)]
        buffers = [
            (batch.column("token_ids").buffers()[3], batch.column("head").buffers()[1])
            for batch in batches
        ]
        places = [(ids.address - start, head.address - start) for ids, head in buffers]
        kind = file.schema.field("token_ids").type.value_type
    before = [0, *accumulate(batch.num_rows for batch in batches)]
    return _Layout(before, places, np.dtype(kind.to_pandas_dtype()))


# Systems allow a process a few hundred to a thousand.
_MAX_OPEN = 100


class ExampleFiles:
    """The files of a split, numbered through, of which some are open at a time."""

    def __init__(
        self, paths: Sequence[str], facts: Mapping[str, Mapping[str, int]]
    ) -> None:
        self._files = [ExampleFile(p, facts[os.path.basename(p)]) for p in paths]
        self._before = np.cumsum([0, *map(len, self._files)])
        self._open: OrderedDict[int, ExampleFile] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self._before[-1])

    @property
    def num_tokens(self) -> int:
        """The number of tokens in all examples."""
        return sum(file.num_tokens for file in self._files)

    def segments(self, rows: Int64Array) -> tuple[TokenRows, TokenRows]:
        """Read the first and the second segments of examples."""
        with self._lock:
            pairs = [file.segments(row) for file, row in self._find(rows)]
        return (
            TokenRows.from_arrays([first for first, _ in pairs]),
            TokenRows.from_arrays([second for _, second in pairs]),
        )

    def documents(self, rows: Int64Array) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """Read the document of each example."""
        with self._lock:
            found = [file.document(row) for file, row in self._find(rows)]
        return np.array(found, np.uint64)

    def draw_others(self, rows: Int64Array, draws: RowDraws) -> Int64Array:
        """Draw for each example one of another document, from separate draws."""
        others, own = np.empty_like(rows), self.documents(rows)
        left = np.arange(len(rows))
        while len(left):
            others[left] = draws.bits(left) % np.uint64(len(self))
            left = left[self.documents(others[left]) == own[left]]
        return others

    def has_one_document(self) -> bool:
        """Return whether all examples are of the same document."""
        first = self.documents(np.zeros(1, np.int64))
        return all((file.documents == first).all() for file in self._files)

    def _find(self, rows: Int64Array) -> Iterator[tuple[ExampleFile, int]]:
        owners = np.searchsorted(self._before, rows, side="right") - 1
        within = rows - self._before[owners]
        for owner, row in zip(owners.tolist(), within.tolist(), strict=True):
            self._open[owner] = self._files[owner]
            self._open.move_to_end(owner)
            if len(self._open) > _MAX_OPEN:
                self._open.popitem(last=False)[1].close()
            yield self._files[owner], row


def _checksum(ids: Any, head: bytes, seed: int) -> int:
    # The seed is of the file's name, so that another file of the data is recognized.
    return zlib.crc32(ids, zlib.crc32(head, seed))


def _record_batch(pa: Any, schema: Any, examples: list[Example], name: str) -> Any:
    rows = TokenRows.from_arrays([example.token_ids for example in examples])
    offsets = np.append(rows.starts, len(rows.values)).astype(np.int32)
    ids = schema.field("token_ids").type
    values = pa.array(rows.values, ids.value_type)
    heads = np.zeros(len(examples), _HEAD)
    heads["start"], heads["end"] = offsets[:-1], offsets[1:]
    heads["boundary"] = [example.boundary for example in examples]
    heads["document"] = [example.document for example in examples]
    stored, seed = values.to_numpy(), zlib.crc32(name.encode())
    heads["checksum"] = [
        _checksum(stored[head["start"] : head["end"]], head.tobytes()[:_CHECKED], seed)
        for head in heads
    ]
    columns = [
        pa.ListArray.from_arrays(offsets, values, type=ids),
        pa.FixedSizeBinaryArray.from_buffers(
            schema.field("head").type, len(heads), [None, pa.py_buffer(heads)]
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def arrow() -> Any:
    """Import pyarrow, or name the extra that installs it."""
    return import_package("A file of examples", "keras-albert[pretraining]", "pyarrow")
