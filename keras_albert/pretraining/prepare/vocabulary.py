"""Trains a vocabulary on the files to be prepared."""

import heapq
import os
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from keras_albert.pretraining.prepare.documents import (
    Progress,
    beam_filesystems,
    beam_path,
    find_parts,
    reported_progress,
)
from keras_albert.pretraining.prepare.parts import (
    appearing_files,
    make_directory,
    path_in,
)
from keras_albert.pretraining.prepare.pipeline import PART_SIZE
from keras_albert.pretraining.prepare.runner import in_worker, map_parts
from keras_albert.pretraining.prepared_files import VOCABULARY_FILE
from keras_albert.text.tokenizer.train_vocabulary import train_vocabulary
from keras_albert.utils.arguments import check_positive

# Enough for tens of thousands of pieces, with some gigabytes of memory.
NUM_LINES = 500_000

# Lines have fewer bytes on average: workers return so many more than are needed.
_MOST_BYTES = 4096


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
        >>> import tempfile
        >>> from pathlib import Path
        >>> path = Path(tempfile.mkdtemp()) / "a.txt"
        >>> _ = path.write_text("the old school\n\n" * 20)
        >>> len(train_vocabulary_on(path, vocabulary_size=24)) > 0
        True
    """
    patterns = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    check_positive(num_lines=num_lines, part_size=part_size)
    if output is not None:
        make_directory(beam_path(output))
    parts = find_parts([beam_path(pattern) for pattern in patterns], part_size)
    share = num_lines * _MOST_BYTES / max(1, sum(part.num_bytes for part in parts))
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
