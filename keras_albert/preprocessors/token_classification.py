"""Preprocessor of the token classifier: words, their pieces and their tags."""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import keras
import keras_hub
import numpy as np
import numpy.typing as npt

from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessors.preprocessor import AlbertPreprocessor
from keras_albert.text import packing
from keras_albert.text.reading import plain_column, to_text_rows
from keras_albert.text.tokenizer.text_rules import UNSPACED
from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.types import Batch, FloatArray, Int64Array, IntArray, Lengths

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
        if any(not isinstance(word, str | bytes) for word in x):
            raise TypeError(
                "A tuple is the words of one text. Received a tuple with "
                f"{next(type(w).__name__ for w in x if not isinstance(w, str | bytes))}"
                ". Pass many texts as a list."
            )
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
        row = is_words.index(not is_words[0])
        kinds = ("a list of words", "a text")
        here, there = kinds if is_words[row] else kinds[::-1]
        raise ValueError(
            f"Row {row} is {here}, but row 0 is {there}. Pass raw texts or lists of "
            "words, not both at once."
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
            raise ValueError(
                f"Row {row} has {count} words, but {len(given)} sample weights. Pass "
                "one for each word, or one for the text."
            )
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
        raise ValueError(
            f"Row {row} has {count} words, but {len(target)} tags. Each word needs one."
        )
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
        (ends > len(words.text), f"ends outside the text, of {len(words.text)}"),
        (parts < 1, "contains no word"),
        (np.append(False, shared), "shares a word with the one before"),
        (
            others_untagged & (parts > 1),
            "has more than one word, and the model no tag for the others",
        ),
    ):
        if wrong.any():
            start, end = target.spans[int(np.argmax(wrong))].tolist()
            raise ValueError(
                f"Row {row}: the entity from {start} to {end} "
                f"({words.text[start:end]!r:.60}) {why}. Count in characters of the "
                "text as given, join or drop entities that overlap, and pass "
                "`labels=tag_names(...)` to the model."
            )
    tags = np.full(len(words.starts), target.outside, np.int32)
    columns = (x.tolist() for x in (first, last, target.tags))
    for begin, end, numbers in zip(*columns, strict=True):
        tags[begin : end + 1] = numbers[2]
        tags[begin], tags[end] = numbers[1], numbers[3]
        if begin == end:
            tags[begin] = numbers[0]
    return tags


class TaggedDocuments:
    """Documents of words, as rows of pieces, with optional tags; see `Examples`."""

    # Of overlapping windows, the one with the most context trains and predicts a piece.
    # `pieces` and `tags`, below 0 if ignored, are concatenated over all words.

    def __init__(
        self,
        preprocessor: "AlbertTokenClassifierPreprocessor",
        words: list[WordRow],
        pieces: TokenRows,
        tags: IntArray | None = None,
        sample_weight: FloatArray | None = None,
    ) -> None:
        self.words = words
        self._counts = np.fromiter((len(row.starts) for row in words), np.int64)
        # Whether a word has pieces; U+200B, for example, has none.
        self._is_seen = pieces.lengths > 0
        word_of_piece = np.repeat(np.arange(len(pieces)), pieces.lengths)
        room = preprocessor.max_length - 2
        documents = np.repeat(np.arange(len(words)), self._counts)
        lengths = np.bincount(documents, pieces.lengths, minlength=len(words))
        stride = packing.window_stride(preprocessor.stride, room)
        windows = packing.OverlappingWindows(lengths.astype(np.int64), room, stride)
        at = windows.tokens.values
        ids = TokenRows(pieces.values[at], windows.tokens.lengths)
        self._texts = packing.EncodedTexts(
            (ids,), preprocessor.special_ids, preprocessor.max_length
        )
        self.lengths = self._texts.lengths
        self._word = word_of_piece[at]
        # The pieces whose tag is trained and predicted.
        self._answers = windows.owned
        if not preprocessor.label_all_pieces:
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


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertTokenClassifierPreprocessor(
    AlbertPreprocessor, keras_hub.models.Preprocessor
):
    """Tokenize words and pack them as `[CLS] words [SEP]`, with a tag for each.

    Each word is tokenized separately, so that its pieces are known; raw texts are
    split into words first (see `split_words`). Words keep their exact offsets in the
    original text. A document of more than `max_sequence_length` tokens is split into
    several rows, overlapping windows; each piece is trained once, in the window in
    which it has the most context.

    Args:
        {shared}
        stride: int or `None`. Distance in pieces between the starts of consecutive
            windows. Defaults to `None`, half a window.
        label_all_pieces: bool. Whether all pieces of a word are trained with its tag,
            and their predictions are averaged. Defaults to `False`, which uses the
            first piece alone.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length leaves no room for a piece, or `stride` is less than 1
            or greater than a window's length.

    Example:
        >>> from keras_albert import AlbertTokenClassifierPreprocessor
        >>> preprocessor = AlbertTokenClassifierPreprocessor.from_preset(
        ...     "albert_tiny_en_uncased", sequence_length=16)
        >>> x, y, weights = preprocessor([["Ada", "lived"]], [[1, 0]])
        >>> x["token_ids"].shape, y[weights > 0]
        ((1, 16), array([1, 0], dtype=int32))
    """

    read_input = staticmethod(word_columns)

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        stride: int | None = None,
        label_all_pieces: bool = False,
        pack_sequences: bool = False,
        **kwargs: Any,
    ) -> None:
        lengths = sequence_length, max_sequence_length, length_buckets
        super().__init__(tokenizer, *lengths, pack_sequences, **kwargs)
        packing.window_stride(stride, self.max_length - 2)
        self.stride = stride
        self.label_all_pieces = label_all_pieces

    def encode(
        self, x: Any, y: Any = None, sample_weight: Any = None
    ) -> tuple[TaggedDocuments, bool]:
        """Tokenize documents into rows: always a batch, since one may have several.

        The targets are an array of tag numbers, one per word, or `SpanTags`, for each
        document.
        """
        (column,), _ = self.columns(x)
        words = [
            split_words(row) if isinstance(row, str) else join_words(row)
            for row in column
        ]
        packing.check_counts(len(words), y, sample_weight)
        tags = None
        if y is not None:
            parts = list(map(word_tags, y, words, range(len(words))))
            tags = np.concatenate(parts) if parts else np.empty(0, np.int32)
        # Each distinct word is tokenized once.
        numbers: dict[str, int] = {}
        of_rows = (word for row in words for word in row.words)
        places = [numbers.setdefault(word, len(numbers)) for word in of_rows]
        (distinct,) = self.tokenize_columns([list(numbers)])
        weights = None if sample_weight is None else word_weights(sample_weight, words)
        pieces = distinct.take(places)
        return TaggedDocuments(self, words, pieces, tags, weights), True
