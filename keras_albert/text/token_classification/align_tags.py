"""Assigns tags to the words of a text, from given tags or from entities."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from keras_albert.text.token_classification.words import WordRow
from keras_albert.types import FloatArray, Int64Array, IntArray


@dataclass(frozen=True)
class SpanTags:
    """The entities of one raw text, and the numbers of their tags.

    `spans` `(entities, 2)` are in characters, rising; `tags` `(entities, 4)` are for
    one word, and the first, an inner and the last of several; -1 for none.
    """

    spans: Int64Array
    tags: IntArray
    outside: int

    def __len__(self) -> int:
        return len(self.spans)


def word_weights(sample_weight: Any, words: list[WordRow]) -> FloatArray:
    """Return the weight of each word of all texts.

    A weight is a number for each text, or a list with a number for each of its words.
    """
    parts = []
    for row, (weights, text) in enumerate(zip(sample_weight, words, strict=True)):
        count = len(text.starts)
        given = np.asarray(weights, np.float32)
        if given.ndim and len(given) != count:
            msg = (
                f"Row {row} has {count} words, but {len(given)} sample weights. Pass "
                "one for each word, or one for the text."
            )
            raise ValueError(msg)
        parts.append(np.broadcast_to(given, count))
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def word_tags(target: Any, words: WordRow, row: int) -> IntArray:
    """Return the tag of each word of a text.

    An entity that begins or ends within a word includes the whole word. `target` has
    one tag per word, or is `SpanTags` for a raw text.
    """
    count = len(words.starts)
    if isinstance(target, SpanTags) and (words.is_raw or not (count or len(target))):
        return _tags_of_spans(target, words, row)
    if isinstance(target, SpanTags) or words.is_raw:
        what, needs = "words", "a tag for each word"
        if words.is_raw:
            what = "a raw text"
            needs = 'its entities, each {"start": 0, "end": 3, "label": "person"}'
        msg = f"Row {row} is {what}, whose target is {needs}. Received: {target!r:.80}"
        raise ValueError(msg)
    if len(target) != count:
        msg = (
            f"Row {row} has {count} words, but {len(target)} tags. Each word needs one."
        )
        raise ValueError(msg)
    return np.asarray(target, np.int32)


def _tags_of_spans(target: SpanTags, words: WordRow, row: int) -> IntArray:
    starts, ends = target.spans[:, 0], target.spans[:, 1]
    first = np.searchsorted(words.ends, starts, side="right")
    last = np.searchsorted(words.starts, ends, side="left") - 1
    shared = first[1:] <= last[:-1]
    parts = last - first + 1
    others_untagged = (target.tags[:, 1:] < 0).any(axis=1)
    for wrong, why in (
        (ends > len(words.text), f"ends outside the text, of {len(words.text)}"),
        (parts < 1, "holds no word"),
        (np.append(False, shared), "shares a word with the one before"),
        (
            others_untagged & (parts > 1),
            "has more than one word, and the model no tag for the others",
        ),
    ):
        if wrong.any():
            start, end = target.spans[int(np.argmax(wrong))].tolist()
            msg = (
                f"Row {row}: the entity from {start} to {end} "
                f"({words.text[start:end]!r:.60}) {why}. Count in characters of the "
                "text as given, join or drop entities that overlap, and pass "
                "`labels=tag_names(...)` to the model."
            )
            raise ValueError(msg)
    tags = np.full(len(words.starts), target.outside, np.int32)
    for begin, end, numbers in zip(
        first.tolist(), last.tolist(), target.tags.tolist(), strict=True
    ):
        tags[begin : end + 1] = numbers[2]
        tags[begin], tags[end] = numbers[1], numbers[3]
        if begin == end:
            tags[begin] = numbers[0]
    return tags
