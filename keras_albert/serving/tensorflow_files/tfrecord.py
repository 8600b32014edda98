"""TFRecord files without TensorFlow."""

import struct
from collections.abc import Iterable
from pathlib import Path

# The Castagnoli polynomial with its bits reversed.
_POLYNOMIAL = 0x82F63B78


def _make_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        rest = byte
        for _ in range(8):
            rest = (rest >> 1) ^ (_POLYNOMIAL if rest & 1 else 0)
        table.append(rest)
    return tuple(table)


_TABLE = _make_table()


def write_records(path: Path, records: Iterable[bytes]) -> None:
    """Write a TFRecord file.

    Source: [the format](https://www.tensorflow.org/tutorials/load_data/tfrecord):
    length, checksum of the length, record, checksum of the record.

    Args:
        path: Path. The file.
        records: Iterable of bytes.

    Example:
        >>> import tempfile
        >>> from keras_albert.serving.tensorflow_files.tfrecord import (
        ...     read_records,
        ...     write_records,
        ... )
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_records(Path(folder, "a"), [b"first", b""])
        ...     read_records(Path(folder, "a"))
        [b'first', b'']
    """
    with path.open("wb") as file:
        for record in records:
            length = struct.pack("<Q", len(record))
            file.write(length + _checksum(length) + record + _checksum(record))


def read_records(path: Path) -> list[bytes]:
    """Read a TFRecord file and check its checksums.

    Args:
        path: Path. The file.

    Returns:
        The records.

    Raises:
        ValueError: If it is truncated or damaged.
    """
    contents, at = path.read_bytes(), 0
    records: list[bytes] = []
    while at < len(contents):
        length, begin = contents[at : at + 8], at + 12
        is_whole = contents[at + 8 : begin] == _checksum(length)
        at = begin + int.from_bytes(length, "little") + 4 if is_whole else 0
        record = contents[begin : at - 4]
        if not is_whole or contents[at - 4 : at] != _checksum(record):
            msg = (
                f"{path} ({len(contents):,} bytes) is damaged or truncated behind "
                f"{len(records)} records. Copy or write it again."
            )
            raise ValueError(msg)
        records.append(record)
    return records


def _checksum(contents: bytes) -> bytes:
    rest = 0xFFFFFFFF
    for byte in contents:
        rest = _TABLE[(rest ^ byte) & 0xFF] ^ (rest >> 8)
    rest ^= 0xFFFFFFFF
    # Masked, because a CRC over data that contains its own CRC is a constant.
    masked = (((rest >> 15) | (rest << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<I", masked)
