"""The Apache Beam pipeline from text files to examples."""

import hashlib
import json
import os
import re
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from keras_albert.pretraining.prepare.documents import (
    InputPart,
    Progress,
    Section,
    beam_filesystems,
    beam_path,
    find_parts,
    progress_of_part,
    read_documents,
    reported_progress,
)
from keras_albert.pretraining.prepare.sentence_pairs import PairSettings, SentencePairs
from keras_albert.pretraining.prepared_files import (
    FORMAT_VERSION,
    METADATA_FILE,
    SPLITS,
    VOCABULARY_FILE,
    ExampleWriter,
    PreparedMetadata,
    Split,
    shard_name,
)
from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer
from keras_albert.text.tokenizer.read_word_piece import split_pieces
from keras_albert.text.tokenizer.vocabularies import VocabularySource
from keras_albert.utils.arguments import check_at_least, check_positive

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
    # The file of `progress_of_part`; "" if there is none.
    progress: str = ""

    def fingerprint(self, part: InputPart) -> str:
        """Return the name of a part's files, another one if they would change."""
        # It does not depend on the other parts, whose files stay when inputs are added.
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
        """Write the shards of a part unless it is finished; return its counters."""
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
                split: ExampleWriter(stream, size, name)
                for split, stream, name in zip(SPLITS, streams, names, strict=True)
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
        raise NotADirectoryError(
            f"{path} is a file, but a directory must be written there. Choose another "
            "path."
        )
    try:
        filesystems.mkdirs(path)
    except OSError:
        if not filesystems.exists(path):
            raise


def _digest(contents: bytes) -> str:
    return hashlib.blake2b(contents, digest_size=8).hexdigest()


# Seconds to minutes of work per part, and shards of similar size.
PART_SIZE = 64 * 2**20
# Beam appends this to error messages.
_WHERE = " [while running "
# By fingerprints, and by numbers as in earlier versions.
_REPORT = re.compile(r"(?:[0-9a-f]{16}|\d{5,})\.json")
_SHARD = re.compile(
    rf"(?:{'|'.join(SPLITS)})-(?:[0-9a-f]{{16}}|\d{{5,}}-of-\d{{5,}})\.arrow"
)
_BROKEN = "files dropped from a place on: broken gzip"


def prepare_examples(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    vocabulary: str | os.PathLike[str] | bytes,
    sequence_length: int = 512,
    held_out: float = 0.01,
    short_seq_prob: float = 0.1,
    seed: int = 0,
    language: str = "en",
    text_field: str = "text",
    part_size: int = PART_SIZE,
    pipeline_options: Any = None,
    progress: Progress | None = None,
    max_broken: float | None = None,
) -> PreparedMetadata:
    r"""Prepare texts for `PretrainingData`.

    Each part of the input has separate shards, for both splits, and at most a section
    of a document is in memory. The examples depend only on the documents, the
    vocabulary and the settings, not on the parts or the workers. Finished parts are
    not processed again; shards are written atomically.

    Args:
        inputs: Paths or globs of text files, plain or `.gz`, with a paragraph or a
            sentence per line and a blank line between documents; or of JSON lines
            (`.jsonl`, `.jsonl.gz`) with a document per line. In any filesystem that
            Beam supports.
        output: string or path. A directory, likewise.
        vocabulary: A vocabulary for `AlbertTokenizer`, as a path or bytes; or
            a preset to continue from, as `from_preset` takes it.
        sequence_length: int. The maximum length of rows, including special tokens.
            Defaults to `512`.
        held_out: float. The fraction of the documents in the held-out split, chosen by
            the documents' text alone. Defaults to `0.01`.
        short_seq_prob: float. The probability that a row is made shorter. Defaults to
            `0.1`.
        seed: int. Defaults to `0`.
        language: string. The code of the texts' language, for splitting sentences.
            Defaults to `"en"`.
        text_field: string. The field of the text in JSON lines. Defaults to `"text"`.
        part_size: int. The size of parts of plain files in bytes; a compressed file is
            a single part. Defaults to 64 MiB.
        pipeline_options: `apache_beam` `PipelineOptions`, a dict of such options, or
            `None` for one process on this machine. Defaults to `None`.
        progress: Callable of the number of bytes that processes of this machine have
            read and the number of all bytes, called several times a second from a
            thread. Defaults to `None`.
        max_broken: float. The largest fraction of the files that may be damaged `.gz`
            files, which are read up to the damage. Defaults to `None`, any.

    Returns:
        The contents of `metadata.json`: the shards, the settings, the counters and the
        damaged files.

    Raises:
        ImportError: If Beam is not installed.
        ValueError: If an input matches nothing, there is no vocabulary, a number is
            out of range, a file is no text, too many are damaged, the texts yield no
            example, or `output` is a preset.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from keras_albert.pretraining import PretrainingData, train_vocabulary_on
        >>> folder = Path(tempfile.mkdtemp())
        >>> document = "A fine film.\nIt was long.\nThe end was dull.\n\n"
        >>> _ = (folder / "a.txt").write_text(document * 9)
        >>> vocabulary = train_vocabulary_on(
        ...     folder / "a.txt", vocabulary_size=30, hard_vocab_limit=False)
        >>> prepared = prepare_examples(
        ...     folder / "a.txt", folder / "prepared", vocabulary, held_out=0.0,
        ...     short_seq_prob=0.0)
        >>> prepared.counters["documents"], prepared.counters["examples: train"]
        (9, 9)
        >>> x, y, weights = PretrainingData(folder / "prepared").batches(4).batch(0)
        >>> x["token_ids"].shape, y["sentence_order"].shape
        ((4, 512), (4,))
    """
    patterns = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    _check(patterns, sequence_length, held_out, short_seq_prob, seed, part_size)
    make_directory(beam_path(output))
    parts = find_parts([beam_path(pattern) for pattern in patterns], part_size)
    if not parts:
        raise ValueError(
            f"The files are empty: {', '.join(map(str, patterns))}. Pass files with "
            "text."
        )
    proto = _read_vocabulary(vocabulary)
    pairs = PairSettings(int(sequence_length), short_seq_prob, int(seed), language)
    settings = PreparationSettings(
        os.fspath(output), proto, pairs, held_out, text_field
    )
    _clear(settings, parts)
    with reported_progress(parts, progress) as file:
        _run(replace(settings, progress=file), parts, pipeline_options)
    return _finish(settings, parts, max_broken)


def _run(
    settings: PreparationSettings, parts: list[InputPart], pipeline_options: Any
) -> None:
    import apache_beam as beam  # noqa: PLC0415
    from apache_beam.metrics.metric import Metrics  # noqa: PLC0415
    from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415

    if not isinstance(pipeline_options, PipelineOptions):
        # In this process, as Beam's default runner tries to download a server.
        pipeline_options = PipelineOptions(
            flags=[], **{"runner": "FnApiRunner"} | dict(pipeline_options or {})
        )

    class Prepare(beam.DoFn):
        """Prepares one part per element."""

        def setup(self) -> None:
            self.preparation = PartPreparation(settings)

        def process(self, element: tuple[int, InputPart]) -> Iterator[int]:
            for name, count in self.preparation(*element).items():
                Metrics.counter("keras_albert", name).inc(count)
            yield element[0]

    try:
        with beam.Pipeline(options=pipeline_options) as pipeline:
            _ = (
                pipeline
                | "Parts" >> beam.Create(list(enumerate(parts)))
                | "Share out" >> beam.Reshuffle()
                | "Prepare" >> beam.ParDo(Prepare())
            )
    except Exception as error:
        raise _raised_by_worker(error) from error


def _raised_by_worker(error: BaseException) -> BaseException:
    """Extract a worker's exception, including Ctrl-C, from Beam's exception."""
    while _WHERE in str(error) and error.__context__ is not None:
        error = error.__context__
    # An error of another process is a text with a traceback.
    last = re.findall(rf"^(\w+): (.*){re.escape(_WHERE)}", str(error), re.MULTILINE)
    if last:
        name, words = last[-1]
        return {"KeyboardInterrupt": KeyboardInterrupt()}.get(
            name, RuntimeError(words if name.endswith("Error") else f"{name}: {words}")
        )
    return error


def _read_vocabulary(vocabulary: str | os.PathLike[str] | bytes) -> bytes:
    source: VocabularySource = vocabulary
    if not isinstance(vocabulary, bytes):
        path = os.fspath(vocabulary)
        filesystems = beam_filesystems()
        if os.path.isdir(path) or not filesystems.exists(path):
            return _vocabulary_of_preset(path)
        with filesystems.open(path) as stream:
            content = stream.read()
        source = split_pieces(content) if path.endswith(".txt") else content
    # With the text rules included, as workers and readers need it.
    proto: bytes = AlbertTokenizer(source).proto
    return proto


def _vocabulary_of_preset(preset: str) -> bytes:
    try:
        proto: bytes = AlbertTokenizer.from_preset(preset).proto
    except ValueError as error:
        raise ValueError(
            f"There is no vocabulary at {preset!r}, and no preset of that name "
            f"({error}) Train one with `keras_albert.pretraining.train_vocabulary_on`."
        ) from error
    return proto


def _clear(settings: PreparationSettings, parts: list[InputPart]) -> None:
    """Delete the metadata of an earlier run, unless it has the same parts."""
    filesystems = beam_filesystems()
    unchanged = all(settings.counters_of(part) is not None for part in parts)
    metadata = path_in(settings.output, METADATA_FILE)
    try:
        stored = read_report(metadata)
    except ValueError:
        # Damaged; it is written anew.
        stored = {}
    if stored and "format_version" not in stored:
        raise ValueError(
            f"{metadata} belongs to something else, for instance a preset, and would "
            "be replaced. Name another output."
        )
    if not unchanged and filesystems.exists(metadata):
        filesystems.delete([metadata])


def _finish(
    settings: PreparationSettings, parts: list[InputPart], max_broken: float | None
) -> PreparedMetadata:
    """Write the vocabulary and the metadata, when all parts are finished."""
    output = settings.output
    found = [settings.counters_of(part) for part in parts]
    if None in found:
        lacking = [str(number) for number, each in enumerate(found) if each is None]
        raise ValueError(
            f"Of {len(parts)} parts, those with the numbers {', '.join(lacking[:9])} "
            f"have no report in {path_in(output, PARTS_FOLDER)}: is it on a file "
            "system that all workers share? Repeat the command with such an output."
        )
    counters = sum((each for each in found if each is not None), Counter[str]())
    broken = _broken_files(parts, found, max_broken)
    if not counters["examples: train"]:
        counts = ", ".join(f"{name} {count}" for name, count in counters.items())
        raise ValueError(
            "The texts yield no training examples: a document needs at least two "
            f"sentences. Pass more text, or a smaller `held_out`. Counted: {counts}"
        )
    shards: dict[str, list[str]] = {
        split: [shard_name(split, settings.fingerprint(part)) for part in parts]
        for split in SPLITS
    }
    tokenizer = AlbertTokenizer(settings.vocabulary, text_rules="keep")
    pairs = settings.pairs
    metadata = PreparedMetadata(
        pairs.sequence_length,
        tokenizer.vocabulary_size(),
        shards,
        settings={
            "seed": pairs.seed,
            "short_seq_prob": pairs.short_seq_prob,
            "held_out": settings.held_out,
            "language": pairs.language,
        },
        counters=dict(sorted(counters.items())),
        broken_files=broken,
        files=_facts(settings, parts),
    )
    names = [path_in(output, name) for name in (VOCABULARY_FILE, METADATA_FILE)]
    contents = (settings.vocabulary, metadata.to_json().encode())
    with appearing_files(output, names) as streams:
        for stream, content in zip(streams, contents, strict=True):
            stream.write(content)
    reports = {part_report(settings.fingerprint(part)) for part in parts}
    kept = {name for names in shards.values() for name in names}
    _delete_stale(settings, kept, reports)
    return metadata


def _facts(
    settings: PreparationSettings, parts: list[InputPart]
) -> dict[str, dict[str, int]]:
    """Return the facts of all shards, from the reports of the parts."""
    facts: dict[str, dict[str, int]] = {}
    for part in parts:
        report = part_report(settings.fingerprint(part))
        path = path_in(settings.output, PARTS_FOLDER, report)
        facts |= read_report(path).get("files", {})
    return facts


def _broken_files(
    parts: list[InputPart],
    counters: list[Counter[str] | None],
    max_broken: float | None,
) -> list[str]:
    """Return the damaged files, or raise if they are too many."""
    broken = [
        part.path
        for part, counted in zip(parts, counters, strict=True)
        if counted is not None and counted[_BROKEN]
    ]
    files = {part.path for part in parts}
    if max_broken is not None and len(broken) > max_broken * len(files):
        raise ValueError(
            f"{len(broken)} of {len(files)} files are damaged, and max_broken="
            f"{max_broken:g}: {', '.join(broken[:20])}. Copy or download them again, "
            "and repeat the command, which goes on with them."
        )
    return broken


def _delete_stale(
    settings: PreparationSettings, shards: set[str], reports: set[str]
) -> None:
    """Delete files of other parts and of killed runs."""
    filesystems = beam_filesystems()
    folder = path_in(settings.output, PARTS_FOLDER)
    found = filesystems.match(
        [path_in(settings.output, "*.arrow"), path_in(folder, "*.json")]
    )
    stale = [
        file.path
        for match, kept, pattern in zip(
            found, (shards, reports), (_SHARD, _REPORT), strict=True
        )
        for file in match.metadata_list
        if (name := filesystems.split(file.path)[1]) not in kept
        and pattern.fullmatch(name)
    ]
    temporary = path_in(settings.output, TEMPORARY_FOLDER)
    filesystems.delete([*stale, temporary])


def _check(
    inputs: Sequence[Any],
    sequence_length: int,
    held_out: float,
    short_seq_prob: float,
    seed: int,
    part_size: int,
) -> None:
    if not inputs:
        raise ValueError("There are no inputs. Pass text files or globs.")
    for name, rate in {"held_out": held_out, "short_seq_prob": short_seq_prob}.items():
        if not 0 <= rate < 1:
            msg = f"`{name}` must be from 0 to below 1. Received: {name}={rate}"
            raise ValueError(msg)
    check_at_least(8, sequence_length=sequence_length)
    check_at_least(0, seed=seed)
    check_positive(part_size=part_size)
