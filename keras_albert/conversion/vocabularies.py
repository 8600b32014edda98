"""Vocabularies of foreign checkpoints, checked with errors that name the file."""

from pathlib import Path

from keras_albert.presets.reading import read_bytes, reading
from keras_albert.text.vocabulary_file import check_vocabulary

# The size of a quarter of a million pieces; ALBERT has 30,000, in under a megabyte.
_MOST_BYTES = 2**25


def read_vocabulary_file(path: Path) -> bytes:
    """Read a SentencePiece model.

    Args:
        path: Path. The file.

    Returns:
        Its bytes.

    Raises:
        ValueError: If it is damaged, too large, or not a vocabulary of ALBERT.
    """
    proto = read_bytes(path, _MOST_BYTES)
    with reading(path, "Copy or download it again, or pass a `tokenizer` of your own."):
        check_vocabulary(proto)
    return proto
