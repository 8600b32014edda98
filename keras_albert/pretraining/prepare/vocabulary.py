"""Trains a vocabulary on the files to be prepared."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from keras_albert.pretraining.prepare.documents import (
    Progress,
    beam_filesystems,
    beam_path,
    find_parts,
    progress_of_part,
    read_documents,
    reported_progress,
)
from keras_albert.pretraining.prepare.pipeline import (
    appearing_files,
    make_directory,
    path_in,
)
from keras_albert.pretraining.prepared_files import VOCABULARY_FILE
from keras_albert.text.tokenizer.train_vocabulary import train_vocabulary

# Enough for tens of thousands of pieces, with some gigabytes of memory.
NUM_LINES = 500_000
_WHOLE_FILES = 2**62


def train_vocabulary_on(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    vocabulary_size: int = 30000,
    num_lines: int = NUM_LINES,
    text_field: str = "text",
    output: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    **kwargs: Any,
) -> bytes:
    r"""Train a vocabulary on the inputs of `prepare_examples`.

    All are read, one document at a time, and SentencePiece samples lines at random.

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
    if output is not None:
        make_directory(beam_path(output))

    def lines() -> Iterator[str]:
        counters: Counter[str] = Counter()
        parts = find_parts([beam_path(p) for p in patterns], _WHOLE_FILES)
        with reported_progress(parts, progress) as file:
            for number, part in enumerate(parts):
                store = progress_of_part(file, number)
                for section in read_documents(part, text_field, counters, store):
                    yield from section.lines

    proto = train_vocabulary(
        lines(),
        vocabulary_size=vocabulary_size,
        input_sentence_size=num_lines,
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
