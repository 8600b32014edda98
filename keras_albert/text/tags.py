"""Tags of words and entities of texts: schemes, words, and documents as rows.

Source: [Tjong Kim Sang and Veenstra, 1999](https://arxiv.org/abs/cs/9907006).
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from keras_albert.text.packing import EncodedTexts, SpecialIds, TokenRows
from keras_albert.text.reading import plain_column, to_text_rows
from keras_albert.text.tokenizer.text_rules import UNSPACED
from keras_albert.text.windows import OverlappingWindows, window_stride
from keras_albert.types import Batch, FloatArray, Int64Array, IntArray

# "BIO" is also known as IOB2, "BIOES" as IOBES. "IO" has labels without marks:
# consecutive words of the same label are one entity.
Scheme: TypeAlias = Literal["BIO", "IOB1", "BIOES", "IO"]


SCHEMES: tuple[Scheme, ...] = ("BIO", "IOB1", "BIOES", "IO")


OUTSIDE = "O"


_MARKS = {"BIO": "BI", "IOB1": "BI", "BIOES": "BIES"}


_MARKED = re.compile(r"([BIES])-(.+)", re.DOTALL)


class Span(NamedTuple):
    """An entity as a range of words or characters, `end` exclusive."""

    start: int
    end: int
    label: str


def tag_names(labels: Iterable[str], scheme: Scheme = "BIO") -> tuple[str, ...]:
    """Return all tags of a scheme for some kinds of entities, sorted.

    Args:
        labels: Iterable of string. The kinds of entities.
        scheme: string. `"BIO"`, `"IOB1"`, `"BIOES"` or `"IO"`. Defaults to `"BIO"`.

    Returns:
        The names of the tags, for the `labels` argument of a model.

    Example:
        >>> tag_names(["place", "person"])
        ('B-person', 'B-place', 'I-person', 'I-place', 'O')
    """
    marks = [f"{mark}-" for mark in _MARKS.get(scheme, "")] or [""]
    return tuple(sorted({OUTSIDE, *(m + label for label in labels for m in marks)}))


def scheme_of_names(names: Iterable[str]) -> Scheme:
    """Guess the scheme from the names of the tags alone."""
    marks = {_split(name)[0] for name in names if name != OUTSIDE}
    if "" in marks:
        return "IO"
    if marks & {"E", "S"}:
        return "BIOES"
    return "BIO" if marks & {"B", "I"} else "IO"


def detect_scheme(rows: Iterable[Sequence[str]]) -> Scheme:
    """Return the first of "BIO", "IOB1", "BIOES" and "IO" that rows of tags follow."""
    rows = list(rows)
    scheme = scheme_of_names({tag for tags in rows for tag in tags})
    if scheme == "BIO":
        problem = _find_problem(rows, "BIO")
        if problem and not _find_problem(rows, "IOB1"):
            return "IOB1"
        if problem:
            msg = f"{problem} Nor are the tags IOB1: {_find_problem(rows, 'IOB1')}"
            raise ValueError(msg)
    else:
        check_tags(rows, scheme)
    return scheme


def check_tags(rows: Iterable[Sequence[str]], scheme: Scheme) -> None:
    """Check that tags follow a scheme."""
    if problem := _find_problem(rows, scheme):
        raise ValueError(problem)


def tags_to_spans(tags: Sequence[str]) -> list[Span]:
    """Convert the tags of one text to entities, in any scheme."""
    # As in CoNLL's evaluation, a tag that does not continue an entity starts one.
    spans: list[Span] = []
    is_open = False
    for place, tag in enumerate(tags):
        if tag == OUTSIDE:
            is_open = False
            continue
        mark, label = _split(tag)
        if is_open and mark not in ("B", "S") and spans[-1].label == label:
            spans[-1] = spans[-1]._replace(end=place + 1)
        else:
            spans.append(Span(place, place + 1, label))
        is_open = mark not in ("E", "S")
    return spans


def spans_to_tags(
    spans: Iterable[Span], length: int, scheme: Scheme = "BIO"
) -> list[str]:
    """Convert the entities of one text to tags."""
    tags = [OUTSIDE] * length
    before = Span(0, 0, "")
    for span in sorted(spans):
        start, end, label = span
        if not before.end <= start < end <= length:
            raise ValueError(
                f"The entity {label!r} from {start} to {end} does not fit between "
                f"{before.end}, the end of the previous one, and {length}."
            )
        tags[start:end] = [f"I-{label}"] * (end - start)
        if scheme == "IO":
            tags[start:end] = [label] * (end - start)
        elif scheme == "BIOES":
            tags[start], tags[end - 1] = f"B-{label}", f"E-{label}"
            if end - start == 1:
                tags[start] = f"S-{label}"
        elif scheme == "BIO" or (before.end == start and before.label == label):
            tags[start] = f"B-{label}"
        before = span
    return tags


def convert_tags(
    rows: Iterable[Sequence[str]], source: Scheme, target: Scheme
) -> list[list[str]]:
    """Convert tags to another scheme; "IO" joins adjacent entities of one label."""
    rows = list(rows)
    check_tags(rows, source)
    return [spans_to_tags(tags_to_spans(tags), len(tags), target) for tags in rows]


def _split(tag: str) -> tuple[str, str]:
    """Split a tag into its mark, which may be empty, and its label."""
    match = _MARKED.fullmatch(tag)
    return (match[1], match[2]) if match else ("", tag)


def _find_problem(rows: Iterable[Sequence[str]], scheme: Scheme) -> str:
    """Describe the first invalid tag; an empty string if all tags are valid."""
    marks = _MARKS.get(scheme)
    if marks is None:
        return ""
    for row, tags in enumerate(rows):
        before = OUTSIDE
        for word, tag in enumerate([*tags, OUTSIDE]):
            known = tag == OUTSIDE or _split(tag)[0] in tuple(marks)
            why = _why_impossible(before, tag, scheme) if known else ""
            if not known or why:
                where = f", word {word}, has the tag {tag!r}"
                where = " ends" if word == len(tags) else where
                behind = f" after {before!r}" if word and known else ""
                why = why or f"a tag is O or one of {', '.join(marks)} with a label"
                return (
                    f"Row {row}{where}{behind}: in {scheme} {why}. "
                    "Correct the tags, or pass the `scheme` that they follow."
                )
            before = tag
    return ""


def _why_impossible(before: str, tag: str, scheme: Scheme) -> str:
    (mark_before, label_before), (mark, label) = _split(before), _split(tag)
    if before == OUTSIDE:
        mark_before, label_before = "", ""
    continues = mark in ("I", "E") and tag != OUTSIDE
    same = label == label_before
    if scheme == "BIO" and continues and not same:
        return f"an entity starts with 'B-{label}'"
    if scheme == "IOB1" and mark == "B" and not same:
        return "B- only parts an entity from one of the same label right before it"
    if scheme == "BIOES":
        is_open = mark_before in ("B", "I")
        if is_open and not (continues and same):
            return (
                f"'{before}' is continued by 'I-{label_before}' or 'E-{label_before}'"
            )
        if continues and not is_open:
            return f"an entity starts with 'B-{label}' or is 'S-{label}'"
    return ""


_FLAGS = "\U0001f1e6-\U0001f1ff"


# Zero-width joiner: combines two symbols into one, as in emoji.
JOINER = "\u200d"


class WordRow(NamedTuple):
    """One text, and the characters where its words start and end."""

    text: str
    starts: Int64Array
    ends: Int64Array
    is_raw: bool

    @property
    def words(self) -> list[str]:
        """The words."""
        spans = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return [self.text[start:end] for start, end in spans]


def word_columns(x: Any) -> tuple[tuple[list[Any], ...], bool]:
    """Read raw texts or lists of words; also return whether they were a batch."""
    # A string is a text, a tuple of strings the words of one; a list of strings is a
    # batch of texts, a list of lists or tuples the words of a batch.
    if isinstance(x, tuple):
        return ([_read_words(x, 0)],), False
    x = plain_column(x)
    if isinstance(x, np.ndarray) and x.ndim:
        x = list(x)
    rows = x if isinstance(x, list) else []
    is_words = [isinstance(row, list | tuple | np.ndarray) for row in rows]
    if not any(is_words):
        texts, batched = to_text_rows(x)
        return (texts,), batched
    if not all(is_words):
        raise ValueError(
            f"Row {is_words.index(False)} is a text, and row {is_words.index(True)} a "
            "list of words. Pass raw texts or lists of words, not both."
        )
    return ([_read_words(words, row) for row, words in enumerate(x)],), True


def join_words(words: list[str]) -> WordRow:
    """Join words into a text with spaces."""
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    starts = np.cumsum(lengths + 1) - lengths - 1
    return WordRow(" ".join(words), starts, starts + lengths, False)


def split_words(text: str) -> WordRow:
    """Split a text into words: runs of letters and digits, and single symbols."""
    spans = [match.span() for match in _word_pattern().finditer(text)]
    bounds = np.array(spans, np.int64).reshape(-1, 2)
    return WordRow(text, bounds[:, 0], bounds[:, 1], True)


@cache
def character_kinds() -> dict[str, str]:
    """Return the kinds of characters in words, as character classes of `re`."""
    # "mark" belongs to the previous character, "unspaced" is a word, "letter" includes
    # digits, two "flag"s are one symbol; the rest is "sign".
    # Computed, because Python's `re` has no class of marks. Other planes have none.
    codes = [
        code
        for code in (*range(0x20000), *range(0xE0000, 0xE1000))
        if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me", "Cf")
    ]
    cuts = np.split(codes, np.flatnonzero(np.diff(codes) > 1) + 1)
    marks = "".join(rf"\U{run[0]:08x}-\U{run[-1]:08x}" for run in cuts)
    return {
        "mark": f"{marks}\U0001f3fb-\U0001f3ff",  # and skin-tone modifiers
        "unspaced": UNSPACED,
        "letter": rf"^\W{UNSPACED}",
        "flag": _FLAGS,
        "sign": rf"^\w\s{_FLAGS}",
    }


def pattern_of_words(class_of: Callable[[str], str]) -> str:
    """Return the regular expression of a word, with classes of `character_kinds`."""
    kinds = {name: class_of(kind) for name, kind in character_kinds().items()}
    marks, sign = f"{kinds['mark']}*", kinds["sign"]
    return (
        f"{kinds['unspaced']}{marks}"
        f"|(?:{kinds['letter']}{marks})+"
        f"|{kinds['flag']}{{1,2}}{marks}"
        f"|{sign}(?:{marks}{class_of(JOINER)}{sign})*{marks}"
    )


@cache
def _word_pattern() -> re.Pattern[str]:
    return re.compile(pattern_of_words("[{}]".format))


def _read_words(words: Any, row: int) -> list[str]:
    read, _ = to_text_rows(words, name=f"the words of row {row}")
    return read


@dataclass(frozen=True)
class SpanTags:
    """The entities of one raw text, in characters, and the numbers of their tags."""

    spans: Int64Array
    tags: IntArray
    outside: int
    # By start and end, as far as they were given.
    texts: dict[tuple[int, int], str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.spans)


def word_weights(sample_weight: Any, words: list[WordRow]) -> FloatArray:
    """Return the weight of each word of all texts."""
    parts = []
    for row, (weights, text) in enumerate(zip(sample_weight, words, strict=True)):
        count = len(text.starts)
        given = np.asarray(weights, np.float32)
        if given.ndim and len(given) != count:
            msg = f"Row {row} has {count} words, but {len(given)} sample weights."
            raise ValueError(msg)
        parts.append(np.broadcast_to(given, count))
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def word_tags(target: Any, words: WordRow, row: int) -> IntArray:
    """Return the tag of each word; an entity within a word includes all of it."""
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
        raise ValueError(f"Row {row} has {count} words, but {len(target)} tags.")
    return np.asarray(target, np.int32)


def _tags_of_spans(target: SpanTags, words: WordRow, row: int) -> IntArray:
    for (start, end), text in target.texts.items():
        if (found := words.text[start:end]) != text:
            raise ValueError(
                f"Row {row}: the entity {text!r:.60} from {start} to {end} is "
                f"{found!r:.60} in the text. Count in characters of the text as given."
            )
    starts, ends = target.spans[:, 0], target.spans[:, 1]
    first = np.searchsorted(words.ends, starts, side="right")
    last = np.searchsorted(words.starts, ends, side="left") - 1
    shared = first[1:] <= last[:-1]
    parts = last - first + 1
    others_untagged = (target.tags[:, 1:] < 0).any(axis=1)
    for wrong, why in (
        (ends > len(words.text), f"ends after the text, of {len(words.text)}"),
        (parts < 1, "contains no word"),
        (np.append(False, shared), "shares a word with the one before"),
        (
            others_untagged & (parts > 1),
            "has several words, and the model no tag for all: `labels=tag_names(...)`",
        ),
    ):
        if wrong.any():
            start, end = target.spans[int(np.argmax(wrong))].tolist()
            raise ValueError(
                f"Row {row}: the entity from {start} to {end} "
                f"({words.text[start:end]!r:.60}) {why}."
            )
    tags = np.full(len(words.starts), target.outside, np.int32)
    columns = (x.tolist() for x in (first, last, target.tags))
    for start, end, numbers in zip(*columns, strict=True):
        tags[start : end + 1] = numbers[2]
        tags[start], tags[end] = numbers[1], numbers[3]
        if start == end:
            tags[start] = numbers[0]
    return tags


class TaggedDocuments:
    """Documents of words, as rows of pieces, with optional tags; see `Examples`."""

    # The window with the most context around a piece trains and predicts it.
    # `pieces` and `tags`, below 0 if ignored, are concatenated over all words.

    def __init__(
        self,
        words: list[WordRow],
        pieces: TokenRows,
        special: SpecialIds,
        max_length: int,
        stride: int | None = None,
        label_all_pieces: bool = False,
        tags: IntArray | None = None,
        sample_weight: FloatArray | None = None,
    ) -> None:
        self.words = words
        self._counts = np.fromiter((len(row.starts) for row in words), np.int64)
        # Whether a word has pieces; U+200B, for example, has none.
        self._is_seen = pieces.lengths > 0
        word_of_piece = np.repeat(np.arange(len(pieces)), pieces.lengths)
        room = max_length - 2
        documents = np.repeat(np.arange(len(words)), self._counts)
        lengths = np.bincount(documents, pieces.lengths, minlength=len(words))
        stride = window_stride(stride, room)
        windows = OverlappingWindows(lengths.astype(np.int64), room, stride)
        at = windows.tokens.values
        ids = TokenRows(pieces.values[at], windows.tokens.lengths)
        self._texts = EncodedTexts((ids,), special, max_length)
        self.lengths = self._texts.lengths
        self._word = word_of_piece[at]
        # The pieces whose tag is trained and predicted.
        self._answers = windows.owned
        if not label_all_pieces:
            is_first = np.zeros(len(pieces.values), bool)
            is_first[pieces.starts[self._is_seen]] = True
            self._answers = self._answers & is_first[at]
        self._places = TokenRows(np.arange(len(at), dtype=np.int32), ids.lengths)
        self._targets = None
        if tags is not None:
            learned = tags[self._word]
            counts = self._answers & (learned >= 0)
            weights = counts.astype(np.float32)
            if sample_weight is not None:
                weights *= sample_weight[self._word]
            self._targets = np.where(counts, learned, 0).astype(np.int32), weights

    def __len__(self) -> int:
        return len(self._texts)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows; see `Examples`."""
        x = self._texts.pack(rows, length)
        if self._targets is None:
            return (x,)
        # After `[CLS]`.
        inside = np.zeros((len(rows), length), bool)
        inside[:, 1:] = np.arange(length - 1) < self._places.lengths[rows][:, None]
        places = self._places.take(rows).values
        targets = []
        for values in self._targets:
            target = np.zeros((len(rows), length), values.dtype)
            target[inside] = values[places]
            targets.append(target)
        return x, *targets

    def merge(self, outputs: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return outputs of words, means over their pieces, or zeros without pieces."""
        sizes = self._places.lengths
        row = np.repeat(np.arange(len(sizes)), sizes)
        column = 1 + self._places.values - np.repeat(self._places.starts, sizes)
        word = self._word[self._answers]
        answers = outputs[row[self._answers], column[self._answers]]
        merged = np.zeros((len(self._is_seen), *outputs.shape[2:]), outputs.dtype)
        np.add.at(merged, word, answers)
        shares = np.maximum(1, np.bincount(word, minlength=len(merged)))
        merged /= shares.reshape(-1, *[1] * (merged.ndim - 1)).astype(outputs.dtype)
        return self._by_document(merged)

    def seen_words(self) -> list[npt.NDArray[np.bool_]]:
        """Return which words have pieces."""
        return self._by_document(self._is_seen)

    def _by_document(self, values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        return np.split(values, np.cumsum(self._counts))[: len(self.words)]


def find_entities(
    probabilities: npt.NDArray[Any],
    is_seen: npt.NDArray[np.bool_],
    names: Sequence[str],
) -> list[tuple[Span, float]]:
    """Return the entities of one document by the most likely tags of its words."""
    seen = np.flatnonzero(is_seen)
    best = probabilities[seen].argmax(axis=-1)
    scores = probabilities[seen, best]
    entities = []
    for start, end, label in tags_to_spans([names[tag] for tag in best]):
        span = Span(int(seen[start]), int(seen[end - 1]) + 1, label)
        entities.append((span, float(scores[start:end].mean())))
    return entities


def span_in_characters(span: Span, words: WordRow) -> Span:
    """Return an entity, given in words, in characters of the text."""
    start, end = words.starts[span.start], words.ends[span.end - 1]
    return Span(int(start), int(end), span.label)


def describe_entity(span: Span, score: float, words: WordRow) -> dict[str, Any]:
    """Return `label`, `score`, `start`, `end` and `text` of an entity."""
    start, end, label = span_in_characters(span, words)
    entity: dict[str, Any] = {
        "label": label,
        "score": score,
        "start": start,
        "end": end,
        "text": words.text[start:end],
    }
    if not words.is_raw:
        entity.update(start_word=span.start, end_word=span.end)
    return entity
