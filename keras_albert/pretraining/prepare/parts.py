"""Prepares one part of the input, in a worker that imports neither Keras nor a backend.

Modules that this one imports are light, see `in_worker`.
"""

import functools
import hashlib
import heapq
import json
import os
import pickle
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from keras_albert.pretraining.prepare import documents
from keras_albert.pretraining.prepare.sentence_pairs import PairSettings, SentencePairs
from keras_albert.pretraining.prepared_files import (
    FORMAT_VERSION,
    SPLITS,
    ExampleWriter,
    Split,
    shard_name,
)
from keras_albert.text.masking import hashed
from keras_albert.text.tokenizer.vocabularies import open_vocabulary

# Folders next to the shards: unfinished files, and reports of finished parts.
TEMPORARY_FOLDER = "temporary"
PARTS_FOLDER = "parts"

# The counters of a part, and the facts of its files.
Report: TypeAlias = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class PreparationSettings:
    """The settings that determine the examples, besides the texts."""

    output: str
    vocabulary: bytes
    pairs: PairSettings
    held_out: float
    text_field: str
    # The file of `progress_of_part`; "" if there is none.
    progress: str = ""

    def fingerprint(self, part: documents.InputPart) -> str:
        """Return the name of a part's files, another one if they would change."""
        # It does not depend on the other parts, whose files stay when inputs are added.
        values = asdict(self) | asdict(part)
        values |= {"vocabulary": _digest(self.vocabulary), "output": ""}
        del values["progress"]
        values["version"] = FORMAT_VERSION
        return _digest(json.dumps(values, sort_keys=True).encode())


class PartPreparation:
    """Prepares parts of the input."""

    def __init__(self, settings: PreparationSettings) -> None:
        self.settings = settings
        self._vocabulary = open_vocabulary(settings.vocabulary)
        self._pairs = SentencePairs(self._vocabulary, settings.pairs)

    def __call__(self, number: int, part: documents.InputPart) -> dict[str, Report]:
        """Write the shards of a part unless it is finished; return its report."""
        fingerprint = self.settings.fingerprint(part)
        path = path_in(self.settings.output, PARTS_FOLDER, f"{fingerprint}.json")
        progress = documents.progress_of_part(self.settings.progress, number)
        if (finished := _finished(path)) is not None:
            progress(part.num_bytes)
            return {fingerprint: finished}
        counters: Counter[str] = Counter()
        with self._writers(fingerprint) as writers:
            field = self.settings.text_field
            for section in documents.read_documents(part, field, counters, progress):
                split = self._split_of(section)
                for example in self._pairs(section, counters):
                    writers[split].add(example)
                    counters[f"examples: {split}"] += 1
        files = {
            shard_name(split, fingerprint): each.facts
            for split, each in writers.items()
        }
        report: Report = {"counters": dict(counters), "files": files}
        with appearing_files(self.settings.output, [path]) as (stream,):
            stream.write(json.dumps(report).encode())
        return {fingerprint: report}

    def _split_of(self, section: documents.Section) -> Split:
        # By the second half of the key; the first half identifies the document.
        place = int.from_bytes(section.key[8:], "little") / 2**64
        return "held_out" if place < self.settings.held_out else "train"

    @contextmanager
    def _writers(self, fingerprint: str) -> Iterator[dict[Split, ExampleWriter]]:
        size = len(self._vocabulary.pieces)
        names = [shard_name(split, fingerprint) for split in SPLITS]
        paths = [path_in(self.settings.output, name) for name in names]
        with appearing_files(self.settings.output, paths) as streams:
            writers = {
                split: ExampleWriter(stream, size, name)
                for split, stream, name in zip(SPLITS, streams, names, strict=True)
            }
            yield writers
            for writer in writers.values():
                writer.close()


def path_in(directory: str, *names: str) -> str:
    """Join path components of any filesystem."""
    return documents.beam_filesystems().join(directory, *names)


def read_report(path: str) -> dict[str, Any]:
    """Read a JSON file in any filesystem; an empty dict if it does not exist."""
    filesystems = documents.beam_filesystems()
    if not filesystems.exists(path):
        return {}
    with filesystems.open(path) as stream:
        report: dict[str, Any] = json.loads(stream.read())
    return report


@contextmanager
def appearing_files(output: str, paths: list[str]) -> Iterator[list[Any]]:
    """Open files that appear under their names when the block succeeds."""
    filesystems = documents.beam_filesystems()
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
    filesystems = documents.beam_filesystems()
    try:
        filesystems.mkdirs(path)
    except OSError:
        if os.path.isfile(path) or not filesystems.exists(path):
            raise


@functools.lru_cache(maxsize=8)
def _digest(contents: bytes) -> str:
    return hashlib.blake2b(contents, digest_size=8).hexdigest()


def _finished(path: str) -> Report | None:
    """Return the report of a finished part; `None` if it is to be done."""
    # Damaged reports are written again.
    with suppress(ValueError, KeyError, AttributeError, TypeError):
        stored = read_report(path)
        counters = {str(name): int(n) for name, n in stored["counters"].items()}
        return {"counters": counters, "files": dict(stored["files"])}
    return None


# Workers call these by name.


@functools.lru_cache(maxsize=1)
def _preparation(settings: bytes) -> PartPreparation:
    return PartPreparation(pickle.loads(settings))  # noqa: S301  (of the driver)


def prepare_part(settings: bytes, element: Any) -> dict[str, Report]:
    """Prepare a part; see `map_parts`."""
    from apache_beam.metrics.metric import Metrics  # noqa: PLC0415  (an extra)

    number, part = element
    reports = _preparation(settings)(number, documents.InputPart(*part))
    for report in reports.values():
        for name, count in report["counters"].items():
            Metrics.counter("keras_albert", name).inc(count)
    return reports


def merge_reports(reports: Iterable[dict[str, Report]]) -> dict[str, Report]:
    """Join the reports of parts."""
    return dict(chain.from_iterable(each.items() for each in reports))


# Lines, each after its random number.
Sample: TypeAlias = list[tuple[int, str]]


def sample_part(text_field: str, share: float, progress: str, element: Any) -> Sample:
    """Return a share of the lines of a part, whatever the parts; see `map_parts`."""
    number, part = element
    sample: Sample = []
    store = documents.progress_of_part(progress, number)
    limit = int(share * 2**63)
    for section in documents.read_documents(
        documents.InputPart(*part), text_field, Counter(), store
    ):
        key = int.from_bytes(section.key[:8], "little")
        drawn = hashed(key, section.number, np.arange(len(section.lines)))
        numbers = (drawn >> np.uint64(1)).tolist()
        pairs = zip(numbers, section.lines, strict=True)
        sample += [(place, line) for place, line in pairs if place < limit]
    return sample


def merge_samples(size: int, samples: Iterable[Sample]) -> Sample:
    """Join samples, of which the lines with the smallest numbers are kept."""
    joined = list(chain.from_iterable(samples))
    return joined if len(joined) <= 2 * size else heapq.nsmallest(size, joined)


def write_result(output: str, path: str, result: Any) -> None:
    """Write the result of all parts; see `map_parts`."""
    with appearing_files(output, [path]) as (stream,):
        stream.write(json.dumps(result).encode())
