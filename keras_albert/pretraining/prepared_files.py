"""The files of prepared data: examples in Arrow files, and their metadata."""

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.types import Int64Array, IntArray
from keras_albert.utils.environment import import_package
from keras_albert.utils.reading import parse_json, reading

METADATA_FILE = "metadata.json"
VOCABULARY_FILE = "vocabulary.spm"
FORMAT_VERSION = 1

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
    # The bytes, rows and checksum of each; none of data that earlier versions prepared.
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
        return cls(**stored)


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


def example_schema(vocabulary_size: int) -> Any:
    """Return the columns of a file of examples, a `pyarrow.Schema`."""
    pa = arrow()
    ids = pa.uint16() if vocabulary_size <= _MAX_SHORT_VOCABULARY else pa.int32()
    return pa.schema(
        [
            pa.field("token_ids", pa.list_(pa.field("item", ids, False)), False),
            pa.field("boundary", pa.int32(), False),
            pa.field("document", pa.uint64(), False),
            # That of the ids and the boundary, checked whenever an example is read.
            pa.field("checksum", pa.uint32(), False),
        ]
    )


class ExampleWriter:
    """Writes a file of examples, with at most some thousands in memory."""

    def __init__(self, stream: IO[bytes], vocabulary_size: int) -> None:
        self._pa = arrow()
        self._schema = example_schema(vocabulary_size)
        self._sink = self._pa.PythonFile(stream, "w")
        self._writer = self._pa.ipc.new_file(self._sink, self._schema)
        self._waiting: list[Example] = []
        self.facts = {"bytes": 0, "rows": 0, "checksum": 0}

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
        batch = _record_batch(self._pa, self._schema, self._waiting)
        self._writer.write_batch(batch)
        self.facts["rows"] += len(self._waiting)
        columns = _Columns.read(batch)
        self.facts["checksum"] = columns.add_to(self.facts["checksum"])
        self._waiting = []


class ExampleFile:
    """A memory-mapped file of examples; files of earlier versions have no `facts`."""

    def __init__(self, path: str, facts: Mapping[str, int] | None = None) -> None:
        pa = arrow()
        self.path = path
        self._size = os.path.getsize(path)
        facts = facts or {}
        self._compare(facts, bytes=self._size)
        try:
            file = pa.ipc.open_file(pa.memory_map(path))
            batches = [file.get_batch(i) for i in range(file.num_record_batches)]
            self._columns = [_Columns.read(batch) for batch in batches]
        except (pa.ArrowInvalid, KeyError) as error:
            msg = f"{path} is damaged, or not a file of examples ({error}). {_REMEDY}"
            raise ValueError(msg) from error
        # The number of rows before each batch, and in total.
        self._before = np.cumsum([0, *(len(c.boundaries) for c in self._columns)])
        if facts:
            # Of 12 bytes an example, not of its ids.
            checksum = 0
            for columns in self._columns:
                checksum = columns.add_to(checksum)
            self._compare(facts, rows=len(self), checksum=checksum)

    def _compare(self, facts: Mapping[str, int], **found: int) -> None:
        for name, value in found.items():
            if facts.get(name, value) != value:
                raise ValueError(
                    f"{self.path} is not the file that was prepared: its {name} should "
                    f"be {facts[name]}. Received: {value}. {_REMEDY}"
                )

    def check_size(self) -> None:
        """Check that the file was not cut short: reading it would kill the process."""
        with suppress(FileNotFoundError):
            if (size := os.stat(self.path).st_size) < self._size:
                raise ValueError(
                    f"{self.path} was cut from {self._size:,} to {size:,} bytes while "
                    f"it was in use. {_REMEDY}"
                )

    def __len__(self) -> int:
        return int(self._before[-1])

    @property
    def num_tokens(self) -> int:
        """The number of tokens in all examples."""
        return sum(int(c.offsets[-1] - c.offsets[0]) for c in self._columns)

    @property
    def documents(self) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """The document of each example, uint64 `(rows,)`."""
        parts = [columns.documents for columns in self._columns]
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)

    def segments(self, row: int) -> tuple[IntArray, IntArray]:
        """Return both segments of an example, as views of the file."""
        batch = int(np.searchsorted(self._before, row, side="right")) - 1
        columns, row = self._columns[batch], row - int(self._before[batch])
        begin, end = columns.offsets[row], columns.offsets[row + 1]
        boundary = columns.boundaries[row]
        ids = columns.values[begin:end]
        if columns.checksums is not None and (
            _checksum(ids, boundary) != columns.checksums[row]
        ):
            raise ValueError(
                f"{self.path} is damaged: example {row} of record batch {batch} has "
                f"another checksum. {_REMEDY}"
            )
        return ids[:boundary], ids[boundary:]


class _Columns(NamedTuple):
    """The columns of a record batch, as NumPy arrays."""

    values: Any
    offsets: Any
    boundaries: Any
    documents: Any
    # `None` in files of earlier versions.
    checksums: Any

    @classmethod
    def read(cls, batch: Any) -> "_Columns":
        ids = batch.column("token_ids")
        has_checksums = "checksum" in batch.schema.names
        return cls(
            # The offsets refer to `values`; `flatten` would shift it.
            ids.values.to_numpy(),
            ids.offsets.to_numpy(),
            batch.column("boundary").to_numpy(),
            batch.column("document").to_numpy(),
            batch.column("checksum").to_numpy() if has_checksums else None,
        )

    def add_to(self, checksum: int) -> int:
        """Return the checksum of the documents and of the examples' checksums."""
        for column in (self.documents, self.checksums):
            checksum = zlib.crc32(column, checksum) if column is not None else checksum
        return checksum


def _checksum(ids: Any, boundary: Any) -> int:
    return zlib.crc32(ids, int(boundary) & 0xFFFFFFFF)


def _record_batch(pa: Any, schema: Any, examples: list[Example]) -> Any:
    rows = TokenRows.from_arrays([example.token_ids for example in examples])
    offsets = np.append(rows.starts, len(rows.values)).astype(np.int32)
    ids = schema.field("token_ids").type
    values = pa.array(rows.values, ids.value_type)
    stored = values.to_numpy()
    checksums = [
        _checksum(stored[offsets[n] : offsets[n + 1]], example.boundary)
        for n, example in enumerate(examples)
    ]
    columns = [
        pa.ListArray.from_arrays(offsets, values, type=ids),
        pa.array([example.boundary for example in examples], pa.int32()),
        pa.array([example.document for example in examples], pa.uint64()),
        pa.array(checksums, pa.uint32()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def arrow() -> Any:
    """Import pyarrow, or name the extra that installs it."""
    return import_package("A file of examples", "keras-albert[pretraining]", "pyarrow")


def gather(files: list[ExampleFile], rows: Int64Array) -> tuple[TokenRows, TokenRows]:
    """Read the first and the second segments of examples, numbered over all files."""
    before = np.cumsum([0, *(len(file) for file in files)])
    owners = np.searchsorted(before, rows, side="right") - 1
    within = (rows - before[owners]).tolist()
    for owner in np.unique(owners).tolist():
        files[owner].check_size()
    pairs = [
        files[owner].segments(row)
        for owner, row in zip(owners.tolist(), within, strict=True)
    ]
    return (
        TokenRows.from_arrays([first for first, _ in pairs]),
        TokenRows.from_arrays([second for _, second in pairs]),
    )
