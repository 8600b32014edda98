"""Tags of words, or entities of texts, as the numbers that a loss takes."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import numpy.typing as npt

from keras_albert.data.labels import encode_classes
from keras_albert.data.tables import first_outside
from keras_albert.text.packing import read_weights
from keras_albert.text.reading import plain_column
from keras_albert.text.tags import (
    OUTSIDE,
    Scheme,
    Span,
    SpanTags,
    check_tags,
    detect_scheme,
    spans_to_tags,
    tag_names,
)

# The tag of a word that does not count, as in PyTorch's cross-entropy.
IGNORED = -100


def read_tag_rows(y: Any) -> list[Any]:
    """Read targets into one list a text: of tags, or of dicts of spans."""
    y = plain_column(y)
    if not isinstance(y, list | tuple | np.ndarray):
        raise ValueError(
            "Targets must be a list of tags, or of entities, for each text. Received: "
            f"{type(y).__name__}"
        )
    return [_read_row(tags, row) for row, tags in enumerate(y)]


def _read_row(tags: Any, row: int) -> Any:
    if isinstance(tags, SpanTags):
        return tags
    if isinstance(tags, np.ndarray) and tags.ndim == 1 and tags.dtype.kind in "iu":
        return tags
    if isinstance(tags, np.ndarray | tuple):
        tags = list(tags)
    if not isinstance(tags, list):
        raise ValueError(
            f"Row {row} of the targets is {tags!r:.60}. Each text needs a list: a tag "
            'for each word, or entities like {"start": 0, "end": 3, "label": "person"}.'
        )
    return [
        IGNORED if tag is None else tag.decode() if isinstance(tag, bytes) else tag
        for tag in tags
    ]


def holds_spans(rows: Sequence[Any]) -> bool:
    """Return whether targets are entities in characters, by their first entry."""
    first = next((row for row in rows if len(row)), None)
    if first is None:
        return all(not isinstance(row, np.ndarray) for row in rows)
    return isinstance(first, SpanTags) or isinstance(first[0], Mapping)


def read_spans(rows: Sequence[Any]) -> list[list[Span]]:
    """Read and check entities in characters."""
    return [
        sorted(_read_span(span, row, at) for at, span in enumerate(spans))
        for row, spans in enumerate(rows)
    ]


def _read_span(span: Any, row: int, at: int) -> Span:
    try:
        start, end = (operator.index(span[name]) for name in ("start", "end"))
        label = span["label"]
        is_span = isinstance(label, str) and label and 0 <= start < end
    except (KeyError, TypeError):
        is_span = False
    if not is_span:
        raise ValueError(
            f"Row {row}, entity {at}, is {span!r:.80}. An entity is a dict of `start` "
            "and `end`, whole numbers of characters, the end above the start, and "
            "`label`."
        )
    return Span(start, end, label)


def learn_tags(rows: Sequence[Any], scheme: str) -> tuple[tuple[str, ...], Scheme]:
    """Return the names of the tags, sorted, none for numbers, and their scheme."""
    if holds_spans(rows):
        spans = [] if _is_encoded(rows) else read_spans(rows)
        chosen: Any = "BIO" if scheme == "auto" else scheme
        labels = {span.label for row in spans for span in row}
        return (tag_names(labels, chosen) if labels else ()), chosen
    tags = {tag for row in rows for tag in row if isinstance(tag, str)}
    if not tags:
        return (), "IO"
    chosen = scheme
    if scheme == "auto":
        # A row that is not a list of names is an error later.
        chosen = detect_scheme(
            [[] if IGNORED in row else [str(tag) for tag in row] for row in rows]
        )
    return tuple(sorted(tags)), chosen


def _is_encoded(rows: Sequence[Any]) -> bool:
    return any(isinstance(row, SpanTags) for row in rows)


def encode_tags(
    rows: Sequence[Any], num_classes: int, labels: Sequence[str] | None, scheme: Scheme
) -> list[Any]:
    """Encode and check the tags of words, a result of `read_tag_rows`."""
    encoded = []
    for row, tags in enumerate(rows):
        try:
            encoded.append(_encode_row(tags, num_classes, labels))
        except ValueError as error:
            what = str(error).replace("Row ", "Word ", 1)
            raise ValueError(f"Row {row} of the targets: {what}") from None
    if labels is not None and scheme != "IO":
        check_tags(
            [
                [] if IGNORED in tags else [labels[tag] for tag in tags]
                for tags in encoded
            ],
            scheme,
        )
    return encoded


def _encode_row(
    tags: Any, num_classes: int, labels: Sequence[str] | None
) -> npt.NDArray[np.int32]:
    if not len(tags):
        return np.empty(0, np.int32)
    if IGNORED not in tags:
        return encode_classes(tags, num_classes, labels)
    known = [tag for tag in tags if tag != IGNORED]
    # One in place of the ignored, so that errors name the word.
    filled = [known[0] if tag == IGNORED else tag for tag in tags] if known else []
    encoded = np.full(len(tags), IGNORED, np.int32)
    counts = [tag != IGNORED for tag in tags]
    if known:
        encoded[counts] = encode_classes(filled, num_classes, labels)[counts]
    return encoded


def refuse_ignored(tags: Sequence[npt.NDArray[np.int32]]) -> None:
    """Raise if a word has no tag, which entities need."""
    for row, numbers in enumerate(tags):
        if IGNORED in numbers:
            raise ValueError(
                f"Row {row} has a word without a tag ({IGNORED}), but entities are "
                "compared by the tags of all words. Tag it, or leave out the row."
            )


def read_word_weights(sample_weight: Any) -> Any:
    """Read a weight for each text, or for each word of each text."""
    rows = plain_column(sample_weight)
    if not isinstance(rows, list | tuple | np.ndarray) or not any(
        isinstance(row, list | tuple | np.ndarray) for row in rows
    ):
        return read_weights(rows)
    read = []
    for row, weights in enumerate(rows):
        try:
            read.append(read_weights(weights))
        except ValueError as error:
            what = str(error).replace("Row ", "Word ", 1)
            raise ValueError(f"Row {row} of the sample weights: {what}") from None
    return read


def encode_spans(
    rows: Sequence[Any], labels: Sequence[str], scheme: Scheme
) -> list[SpanTags]:
    """Encode entities of `read_tag_rows`, in characters, as the tags of their words."""
    if _is_encoded(rows):
        return list(rows)
    numbers = {name: number for number, name in enumerate(labels)}
    if rows and OUTSIDE not in numbers:
        raise ValueError(
            f"Entities need the tag {OUTSIDE!r} for words outside, but the model's "
            f"tags are {', '.join(labels)}. Pass `labels=tag_names(...)` to the model."
        )
    encoded = []
    for row, spans in enumerate(read_spans(rows)):
        tags = np.empty((len(spans), 4), np.int32)
        for at, span in enumerate(spans):
            lone = spans_to_tags([Span(0, 1, span.label)], 1, scheme)
            whole = spans_to_tags([Span(0, 3, span.label)], 3, scheme)
            tags[at] = [numbers.get(tag, -1) for tag in (*lone, *whole)]
            if tags[at, 0] < 0:
                raise ValueError(
                    f"Row {row}, entity {at}, is labelled {span.label!r}, which needs "
                    f"the tag {lone[0]!r}, but the model has none. Its tags are: "
                    f"{', '.join(labels)}. Correct it, or pass `labels=tag_names(...)` "
                    "to the model."
                )
        bounds = np.array([span[:2] for span in spans], np.int64).reshape(-1, 2)
        given = [x for x in rows[row] if x.get("text") is not None]
        texts = {(x["start"], x["end"]): x["text"] for x in given}
        encoded.append(SpanTags(bounds, tags, numbers[OUTSIDE], texts))
    return encoded


def read_tag_numbers(y: Any, num_classes: int) -> npt.NDArray[np.int32]:
    """Read and check the tags of ids, integers `(examples, tokens)`."""
    tags = np.asarray(keras.ops.convert_to_numpy(y))
    if tags.ndim != 2 or tags.dtype.kind not in "iu":
        raise ValueError(
            "The targets of ids must be integers (examples, tokens), with the sample "
            "weight 0 where there is no tag, as the preprocessor returns them. "
            f"Received: {tags.dtype} {tags.shape}"
        )
    if (row := first_outside(tags, num_classes)) is not None:
        raise ValueError(
            f"Row {row} of the targets holds a tag outside 0 to "
            f"{num_classes - 1}. Where there is none, put 0 and the sample weight 0."
        )
    return tags.astype(np.int32)
