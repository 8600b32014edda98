"""Numbers and tables that the TensorFlow and ONNX graphs share."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_albert.text.masked_lm.tokenize_masks import without_space
from keras_albert.text.masked_lm.word_starts import SPACE
from keras_albert.text.token_classification.tag_schemes import tags_to_spans
from keras_albert.types import IntArray

# The default of `fill_mask`.
TOP_K = 5

# The default of `answer`.
MAX_ANSWER_LENGTH = 30

# Only positions that the model masks have log-probabilities as low as this.
IMPOSSIBLE = -1e20

# Windows per batch, so that a long document does not exhaust memory.
WINDOWS_AT_ONCE = 64

# Python's whitespace, for regular expressions.
SPACES = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))


def inner_pieces(tokenizer: Any) -> IntArray:
    """Map each id to that of the same piece without a leading space, or -1."""
    size = tokenizer.vocabulary_size()
    rows = [np.array([token], np.int32) for token in range(size)]
    inner = [without_space(tokenizer, "x", row) for row in rows]
    return np.array([row[0] if len(row) else -1 for row in inner], np.int32)


def token_names(tokenizer: Any) -> list[str]:
    """Return the text of each token, as in `fill_mask`."""
    return [
        tokenizer.id_to_token(token).replace(SPACE, " ").removeprefix(" ")
        for token in range(tokenizer.vocabulary_size())
    ]


def entity_tables(names: Sequence[str]) -> tuple[list[str], list[list[bool]]]:
    """Return the label of each tag, and which two tags form one entity."""
    labels = ["".join(s.label for s in tags_to_spans([name])) for name in names]
    joins = [
        [[s.end - s.start for s in tags_to_spans([a, b])] == [2] for b in names]
        for a in names
    ]
    return labels, joins
