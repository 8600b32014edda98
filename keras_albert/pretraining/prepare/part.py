"""Converts a part of the input to shards, atomically."""

import hashlib
import json
import os
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Any

from keras_albert.pretraining.data.example_file import ExampleWriter
from keras_albert.pretraining.data.metadata import (
    FORMAT_VERSION,
    SPLITS,
    Split,
    shard_name,
)
from keras_albert.pretraining.prepare.documents import Section, read_documents
from keras_albert.pretraining.prepare.input_parts import InputPart, beam_filesystems
from keras_albert.pretraining.prepare.progress import progress_of_part
from keras_albert.pretraining.prepare.sentence_pairs import PairSettings, SentencePairs
from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer

# Folders beside the shards: unfinished files, and reports of finished parts.
TEMPORARY_FOLDER = "temporary"
PARTS_FOLDER = "parts"


@dataclass(frozen=True)
class PreparationSettings:
    """The settings that determine the examples, besides the texts."""

    output: str
    vocabulary: bytes
    pairs: PairSettings
    held_out: float
    text_field: str
    progress: str = ""

    def fingerprint(self, part: InputPart) -> str:
        """Return the name of a part's files, another one if they would change.

        It does not depend on the other parts, so that their files stay when inputs are
        added.
        """
        values = asdict(self) | asdict(part)
        values |= {"vocabulary": _digest(self.vocabulary), "output": ""}
        del values["progress"]
        values["version"] = FORMAT_VERSION
        return _digest(json.dumps(values, sort_keys=True).encode())

    def counters_of(self, part: InputPart) -> Counter[str] | None:
        """Return the counters of a finished part; `None` if it is to be done."""
        name = part_report(self.fingerprint(part))
        # Damaged reports are written anew.
        with suppress(ValueError, KeyError, AttributeError, TypeError):
            report = read_report(path_in(self.output, PARTS_FOLDER, name))
            return Counter({str(x): int(n) for x, n in report["counters"].items()})
        return None


class PartPreparation:
    """Prepares parts of the input."""

    def __init__(self, settings: PreparationSettings) -> None:
        self.settings = settings
        self._tokenizer = AlbertTokenizer(settings.vocabulary, text_rules="keep")
        self._pairs = SentencePairs(self._tokenizer, settings.pairs)

    def __call__(self, number: int, part: InputPart) -> Counter[str]:
        """Write the shards of a part, unless it is finished."""
        fingerprint = self.settings.fingerprint(part)
        finished = self.settings.counters_of(part)
        progress = progress_of_part(self.settings.progress, number)
        if finished is not None:
            progress(part.num_bytes)
            return finished
        counters: Counter[str] = Counter()
        with self._writers(fingerprint) as writers:
            field = self.settings.text_field
            for section in read_documents(part, field, counters, progress):
                split = self._split_of(section)
                for example in self._pairs(section, counters):
                    writers[split].add(example)
                    counters[f"examples: {split}"] += 1
        files = {
            shard_name(split, fingerprint): each.facts
            for split, each in writers.items()
        }
        contents = json.dumps({"counters": counters, "files": files})
        report = path_in(self.settings.output, PARTS_FOLDER, part_report(fingerprint))
        with appearing_files(self.settings.output, [report]) as (stream,):
            stream.write(contents.encode())
        return counters

    def _split_of(self, section: Section) -> Split:
        # By the second half of the key; the first half identifies the document.
        place = int.from_bytes(section.key[8:], "little") / 2**64
        return "held_out" if place < self.settings.held_out else "train"

    @contextmanager
    def _writers(self, fingerprint: str) -> Iterator[dict[Split, ExampleWriter]]:
        size = self._tokenizer.vocabulary_size()
        names = [shard_name(split, fingerprint) for split in SPLITS]
        paths = [path_in(self.settings.output, name) for name in names]
        with appearing_files(self.settings.output, paths) as streams:
            writers = {
                split: ExampleWriter(stream, size)
                for split, stream in zip(SPLITS, streams, strict=True)
            }
            yield writers
            for writer in writers.values():
                writer.close()


def part_report(fingerprint: str) -> str:
    """Return the file name of the report of a finished part."""
    return f"{fingerprint}.json"


def path_in(directory: str, *names: str) -> str:
    """Join path components of any filesystem."""
    path: str = beam_filesystems().join(directory, *names)
    return path


def read_report(path: str) -> dict[str, Any]:
    """Read a JSON file in any filesystem; an empty dict if it does not exist."""
    filesystems = beam_filesystems()
    if not filesystems.exists(path):
        return {}
    with filesystems.open(path) as stream:
        report: dict[str, Any] = json.loads(stream.read())
    return report


@contextmanager
def appearing_files(output: str, paths: list[str]) -> Iterator[list[Any]]:
    """Open files that appear under their names when the block succeeds."""
    filesystems = beam_filesystems()
    folder = path_in(output, TEMPORARY_FOLDER)
    # A runner may process the same part twice at the same time.
    temporary = [path_in(folder, uuid.uuid4().hex) for _ in paths]
    for directory in {folder} | {filesystems.split(path)[0] for path in paths}:
        make_directory(directory)
    streams = [
        filesystems.create(path, "application/octet-stream", "uncompressed")
        for path in temporary
    ]
    try:
        yield streams
    except BaseException:
        for stream in streams:
            stream.close()
        filesystems.delete(temporary)
        raise
    for stream in streams:
        stream.close()
    filesystems.rename(temporary, paths)


def make_directory(path: str) -> None:
    """Make a directory, unless it exists or the filesystem has none."""
    filesystems = beam_filesystems()
    if os.path.isfile(path):
        msg = (
            f"{path} is a file, but a directory must be written there. Choose another "
            "path."
        )
        raise NotADirectoryError(msg)
    try:
        filesystems.mkdirs(path)
    except OSError:
        if not filesystems.exists(path):
            raise


def _digest(contents: bytes) -> str:
    return hashlib.blake2b(contents, digest_size=8).hexdigest()
