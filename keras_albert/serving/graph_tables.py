"""Numbers and tables that the TensorFlow and ONNX graphs share."""

import sys
from collections.abc import Sequence
from typing import Any

from keras_albert.text.tag_schemes import tags_to_spans

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


def token_names(tokenizer: Any) -> list[str]:
    """Return the text of each token, as in `fill_mask`."""
    return [text.removeprefix(" ") for text in tokenizer.vocabulary.texts]


def entity_tables(names: Sequence[str]) -> tuple[list[str], list[list[bool]]]:
    """Return the label of each tag, and which two tags form one entity."""
    labels = ["".join(s.label for s in tags_to_spans([name])) for name in names]
    joins = [
        [[s.end - s.start for s in tags_to_spans([a, b])] == [2] for b in names]
        for a in names
    ]
    return labels, joins
