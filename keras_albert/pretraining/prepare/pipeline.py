"""From text files to examples, part by part."""

import heapq
import json
import os
import pickle
import re
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, astuple, replace
from typing import Any

from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.pretraining.prepare.documents import (
    InputPart,
    Progress,
    beam_filesystems,
    beam_output,
    beam_path,
    find_parts,
    reported_progress,
)
from keras_albert.pretraining.prepare.parts import (
    PARTS_FOLDER,
    TEMPORARY_FOLDER,
    PreparationSettings,
    Report,
    appearing_files,
    make_directory,
    path_in,
    read_report,
)
from keras_albert.pretraining.prepare.sentence_pairs import PairSettings
from keras_albert.pretraining.prepared_files import (
    METADATA_FILE,
    SPLITS,
    VOCABULARY_FILE,
    PreparedMetadata,
    shard_name,
)
from keras_albert.text.tokenizer.read_word_piece import split_pieces
from keras_albert.text.tokenizer.train_vocabulary import train_vocabulary
from keras_albert.text.tokenizer.vocabularies import VocabularySource
from keras_albert.utils.arguments import check_at_least, check_positive, check_rates

# Beam appends this to error messages.
_WHERE = " [while running "


def map_parts(
    parts: Sequence[InputPart],
    work: Callable[[Any], Any],
    merge: Callable[[Any], Any],
    output: str,
    pipeline_options: Any,
) -> Any:
    """Process each part in a worker, and return the merged results, as JSON values."""
    # `work` receives the number of a part and its fields, `merge` any number of
    # results; both are of `in_worker`.
    if not parts:
        return merge([])
    import apache_beam as beam  # noqa: PLC0415
    from apache_beam.options.pipeline_options import PipelineOptions  # noqa: PLC0415

    if not isinstance(pipeline_options, PipelineOptions):
        # In this process, as Beam's default runner tries to download a server.
        pipeline_options = PipelineOptions(
            flags=[], **{"runner": "FnApiRunner"} | dict(pipeline_options or {})
        )
    # One file, so that this process reads as much for any number of parts.
    path = path_in(output, TEMPORARY_FOLDER, f"{uuid.uuid4().hex}.json")
    try:
        with beam.Pipeline(options=pipeline_options) as pipeline:
            _ = (
                pipeline
                | "Parts" >> beam.Create([(n, astuple(p)) for n, p in enumerate(parts)])
                | "Share out" >> beam.Reshuffle()
                | "Prepare" >> beam.Map(work)
                # The default of no parts is a side input, for which Dask would
                # compute all parts again.
                | "Merge" >> beam.CombineGlobally(merge).without_defaults()
                | "Write" >> beam.Map(in_worker("write_result", output, path))
            )
    except Exception as error:
        raise _raised_by_worker(error) from error
    filesystems = beam_filesystems()
    if not filesystems.exists(path):
        raise ValueError(
            f"The workers have left no results in {path_in(output, TEMPORARY_FOLDER)}: "
            "is it on a file system that all workers share? Repeat the command with an "
            "output on one."
        )
    with filesystems.open(path) as stream:
        result = json.loads(stream.read())
    filesystems.delete([path])
    return result


def in_worker(name: str, *first: Any) -> Callable[..., Any]:
    """Return a call of a function of `parts.py`, whose first arguments are given."""

    # A worker that runs it does not import Keras, which takes seconds and a gigabyte.
    # Pickled by its code, since it is not a function of a module: unpickling one of
    # this package would import the package.
    def call(*rest: Any) -> Any:
        import importlib.util  # noqa: PLC0415
        import sys  # noqa: PLC0415

        for package in (
            "keras_albert",
            "keras_albert.text",
            "keras_albert.pretraining",
        ):
            # Its modules are enough, without what the package exports.
            if package not in sys.modules:
                spec: Any = importlib.util.find_spec(package)
                sys.modules[package] = importlib.util.module_from_spec(spec)
        module = importlib.import_module("keras_albert.pretraining.prepare.parts")
        return getattr(module, name)(*first, *rest)

    return call


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


# Seconds to minutes of work per part, and shards of similar size.
PART_SIZE = 64 * 2**20
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
        output: string or path. A directory, likewise; or one in a remote storage that
            only fsspec supports, which is uploaded when all of it is there.
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
        >>> from pathlib import Path
        >>> from keras_albert.pretraining import PretrainingData, train_vocabulary_on
        >>> document = "A fine film.\nIt was long.\nThe end was dull.\n\n"
        >>> _ = Path("a.txt").write_text(document * 9)
        >>> vocabulary = train_vocabulary_on(
        ...     "a.txt", vocabulary_size=30, hard_vocab_limit=False)
        >>> prepared = prepare_examples(
        ...     "a.txt", "prepared", vocabulary, held_out=0.0, short_seq_prob=0.0)
        >>> prepared.counters["documents"], prepared.counters["examples: train"]
        (9, 9)
        >>> x, y, weights = PretrainingData("prepared").batches(4).batch(0)
        >>> x["token_ids"].shape, y["sentence_order"].shape
        ((4, 512), (4,))
    """
    patterns = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    check_rates(held_out=held_out, short_seq_prob=short_seq_prob)
    check_at_least(8, sequence_length=sequence_length)
    check_at_least(0, seed=seed)
    check_positive(part_size=part_size)
    with beam_output(output) as place:
        make_directory(place)
        parts = find_parts([beam_path(pattern) for pattern in patterns], part_size)
        if not parts:
            names = ", ".join(map(str, patterns))
            raise ValueError(f"There is no text in [{names}]. Pass files with text.")
        proto = _read_vocabulary(vocabulary)
        pairs = PairSettings(int(sequence_length), short_seq_prob, int(seed), language)
        settings = PreparationSettings(place, proto, pairs, held_out, text_field)
        _clear(settings, parts)
        with reported_progress(parts, progress) as file:
            reports = map_parts(
                parts,
                in_worker(
                    "prepare_part", pickle.dumps(replace(settings, progress=file))
                ),
                in_worker("merge_reports"),
                settings.output,
                pipeline_options,
            )
        return _finish(settings, parts, reports, max_broken)


def _read_vocabulary(vocabulary: str | os.PathLike[str] | bytes) -> bytes:
    source: VocabularySource = vocabulary
    if not isinstance(vocabulary, bytes):
        path = os.fspath(vocabulary)
        filesystems = beam_filesystems()
        if os.path.isdir(path) or not filesystems.exists(path):
            try:
                return bytes(AlbertTokenizer.from_preset(path).proto)
            except ValueError as error:
                raise ValueError(
                    f"There is no vocabulary at {path!r}, and no preset of that name "
                    f"({error}) Train one with `train_vocabulary_on`."
                ) from error
        with filesystems.open(path) as stream:
            content = stream.read()
        source = split_pieces(content) if path.endswith(".txt") else content
    # With the text rules included, as workers and readers need it.
    return AlbertTokenizer(source).proto


def _clear(settings: PreparationSettings, parts: list[InputPart]) -> None:
    """Delete the metadata of an earlier run, unless it has the same parts."""
    filesystems = beam_filesystems()
    # By one listing, which takes as long as a few reads.
    pattern = path_in(settings.output, PARTS_FOLDER, "*.json")
    (found,) = filesystems.match([pattern])
    names = {filesystems.split(file.path)[1] for file in found.metadata_list}
    unchanged = names >= {f"{settings.fingerprint(part)}.json" for part in parts}
    metadata = path_in(settings.output, METADATA_FILE)
    try:
        stored = read_report(metadata)
    except ValueError:
        # Damaged; it is written again.
        stored = {}
    if stored and "format_version" not in stored:
        raise ValueError(
            f"{metadata} belongs to something else, for instance a preset, and would "
            "be replaced. Name another output."
        )
    if not unchanged and filesystems.exists(metadata):
        filesystems.delete([metadata])


def _finish(
    settings: PreparationSettings,
    parts: list[InputPart],
    reports: dict[str, Report],
    max_broken: float | None,
) -> PreparedMetadata:
    output = settings.output
    fingerprints = [settings.fingerprint(part) for part in parts]
    found = [Counter(reports[name]["counters"]) for name in fingerprints]
    files = {
        name: facts
        for each in fingerprints
        for name, facts in reports[each]["files"].items()
    }
    _check_sizes(output, files)
    counters = sum(found, Counter[str]())
    broken = _broken_files(parts, found, max_broken)
    if not counters["examples: train"]:
        counts = ", ".join(f"{name} {count}" for name, count in counters.items())
        raise ValueError(
            "The texts yield no training examples: a document needs at least two "
            f"sentences. Pass more text, or a smaller `held_out`. Counted: {counts}"
        )
    shards: dict[str, list[str]] = {
        split: [shard_name(split, name) for name in fingerprints] for split in SPLITS
    }
    tokenizer = AlbertTokenizer(settings.vocabulary, text_rules="keep")
    pairs = asdict(settings.pairs) | {"held_out": settings.held_out}
    names = ("seed", "short_seq_prob", "held_out", "language")
    metadata = PreparedMetadata(
        pairs["sequence_length"],
        tokenizer.vocabulary_size(),
        shards,
        settings={name: pairs[name] for name in names},
        counters=dict(sorted(counters.items())),
        broken_files=broken,
        files=files,
    )
    paths = [path_in(output, name) for name in (VOCABULARY_FILE, METADATA_FILE)]
    contents = (settings.vocabulary, metadata.to_json().encode())
    with appearing_files(output, paths) as streams:
        for stream, content in zip(streams, contents, strict=True):
            stream.write(content)
    _delete_stale(output, {*files, *(f"{each}.json" for each in fingerprints)})
    return metadata


def _check_sizes(output: str, files: dict[str, dict[str, int]]) -> None:
    """Check, by one listing, that the files of finished parts are all there."""
    filesystems = beam_filesystems()
    (found,) = filesystems.match([path_in(output, "*.arrow")])
    sizes = {
        filesystems.split(file.path)[1]: file.size_in_bytes
        for file in found.metadata_list
    }
    missing = [name for name in files if sizes.get(name) != files[name]["bytes"]]
    if missing:
        raise ValueError(
            f"Of {len(files)} files, {', '.join(missing[:9])} are missing in {output} "
            "or have another size: is it on a file system that all workers share? "
            f"Delete {path_in(output, PARTS_FOLDER)}, and repeat the command."
        )


def _broken_files(
    parts: list[InputPart], counters: list[Counter[str]], max_broken: float | None
) -> list[str]:
    """Return the damaged files, or raise if they are too many."""
    pairs = zip(parts, counters, strict=True)
    broken = [part.path for part, counted in pairs if counted[_BROKEN]]
    files = {part.path for part in parts}
    if max_broken is not None and len(broken) > max_broken * len(files):
        raise ValueError(
            f"{len(broken)} of {len(files)} files are damaged, and max_broken="
            f"{max_broken:g}: {', '.join(broken[:20])}. Copy or download them again, "
            "and run the command again: it continues with them."
        )
    return broken


def _delete_stale(output: str, kept: set[str]) -> None:
    """Delete files of other parts and of killed runs."""
    filesystems = beam_filesystems()
    patterns = [path_in(output, f"{split}-*.arrow") for split in SPLITS]
    patterns.append(path_in(output, PARTS_FOLDER, "*.json"))
    stale = [
        file.path
        for match in filesystems.match(patterns)
        for file in match.metadata_list
        if filesystems.split(file.path)[1] not in kept
    ]
    filesystems.delete([*stale, path_in(output, TEMPORARY_FOLDER)])


# Enough for tens of thousands of pieces, with some gigabytes of memory.
NUM_LINES = 500_000

# Lines have fewer bytes on average: workers return so many more than are needed.
_MAX_BYTES = 4096


def train_vocabulary_on(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    vocabulary_size: int = 30000,
    num_lines: int = NUM_LINES,
    text_field: str = "text",
    output: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    pipeline_options: Any = None,
    part_size: int = PART_SIZE,
    **kwargs: Any,
) -> bytes:
    r"""Train a vocabulary on the inputs of `prepare_examples`.

    Workers read all of them, and draw lines by the documents that contain them: the
    same lines for any number of workers and parts.

    Args:
        inputs: As in `prepare_examples`.
        vocabulary_size: int. The number of pieces, including special tokens. Defaults
            to `30000`.
        num_lines: int. The maximum number of lines to train on; memory grows with it.
            Defaults to `500_000`.
        text_field: string. The field of the text in JSON lines. Defaults to `"text"`.
        output: string or path. A directory, in any filesystem that Beam supports, to
            write the model to, for `stored_vocabulary`. Defaults to `None`.
        progress: Callable of the number of bytes that have been read and the number of
            all bytes. Defaults to `None`.
        pipeline_options: As in `prepare_examples`; on other machines, `output` must be
            a directory that they share. Defaults to `None`.
        part_size: int. As in `prepare_examples`. Defaults to 64 MiB.
        **kwargs: Other arguments of `keras_albert.text.train_vocabulary`.

    Returns:
        The SentencePiece model as bytes.

    Raises:
        ValueError: If an input matches nothing, or there is too little text.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("a.txt").write_text("the old school\n\n" * 20)
        >>> len(train_vocabulary_on("a.txt", vocabulary_size=24)) > 0
        True
    """
    patterns = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    check_positive(num_lines=num_lines, part_size=part_size)
    if output is not None:
        make_directory(beam_path(output))
    parts = find_parts([beam_path(pattern) for pattern in patterns], part_size)
    share = num_lines * _MAX_BYTES / max(1, sum(part.num_bytes for part in parts))
    local: Any = (
        tempfile.TemporaryDirectory() if output is None else nullcontext(output)
    )
    with local as folder, reported_progress(parts, progress) as file:
        sample = map_parts(
            parts,
            in_worker("sample_part", text_field, min(share, 1.0), file),
            in_worker("merge_samples", num_lines),
            os.fspath(folder),
            pipeline_options,
        )
    proto = train_vocabulary(
        [line for _, line in heapq.nsmallest(num_lines, sample)],
        vocabulary_size=vocabulary_size,
        input_sentence_size=0,
        **kwargs,
    )
    if output is not None:
        directory = os.fspath(output)
        with appearing_files(directory, [path_in(directory, VOCABULARY_FILE)]) as files:
            files[0].write(proto)
    return proto


def stored_vocabulary(output: str | os.PathLike[str]) -> bytes | None:
    """Read the vocabulary in a directory of prepared examples."""
    filesystems = beam_filesystems()
    path = path_in(beam_path(output), VOCABULARY_FILE)
    if not filesystems.exists(path):
        return None
    with filesystems.open(path) as stream:
        proto: bytes = stream.read()
    return proto
