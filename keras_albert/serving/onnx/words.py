"""Splitting texts into characters and words in an ONNX graph."""

import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_albert.serving.graph_tables import SPACES
from keras_albert.text.tasks.token_classification import JOINER, character_kinds
from keras_albert.text.tokenizer.text_rules import BLANKS
from keras_albert.types import Int64Array

if TYPE_CHECKING:
    from keras_albert.serving.onnx.text import OnnxText, Pieces


class OnnxCharacters:
    """The concatenated characters of texts."""

    def __init__(self, texts: "OnnxText", column: Any) -> None:
        op = self.op = texts.op
        self.texts = texts
        self._characters, begins, ends, rows, self._firsts = split(
            texts, column, "(?s)."
        )
        zeros = op.Expand([0], texts.builder.size(column, 0))
        # An empty text has no characters and keeps the length 0.
        self.byte_lengths = op.ScatterElements(zeros, rows, ends, reduction="max")
        # One more position for each text: the one after its last byte.
        spaces = op.Add(self.byte_lengths, 1)
        self._bases = op.CumSum(spaces, 0, exclusive=1)
        total = op.ReduceSum(spaces, keepdims=1)
        at = op.Add(op.Gather(self._bases, rows), begins)
        marks = op.ScatterElements(
            op.Expand([0], op.Add(total, 1)), at, op.Add(op.Mul(at, 0), 1)
        )
        # The number of characters that begin before each byte of all texts.
        self._before = op.CumSum(marks, 0, exclusive=1)

    def at_bytes(self, rows: Any, places: Any) -> Any:
        """Return the characters, counted over all texts, at byte positions in texts."""
        op = self.op
        return op.Gather(self._before, op.Add(op.Gather(self._bases, rows), places))

    def in_text(self, rows: Any, characters: Any) -> Any:
        """Convert characters to int32 positions in their texts."""
        op = self.op
        found = op.Sub(characters, op.Gather(self._firsts, rows))
        return self.texts.builder.cast(found, "int32")

    def spans(self, pieces: "Pieces") -> tuple[Any, Any]:
        """Return pieces' first characters in all texts, and those after the last."""
        op, builder = self.op, self.texts.builder
        rows = self.texts.owners(pieces)
        start = self.at_bytes(rows, pieces.places)
        # In SentencePiece, a piece ends where the next one begins, or with its text.
        final = op.Add(pieces.begins, op.Sub(pieces.lengths, 1))
        is_final = op.Equal(self.texts.positions(pieces.ids), op.Gather(final, rows))
        behind = op.Concat(op.Slice(pieces.places, [1], [2**31]), [0], axis=0)
        behind = op.Slice(behind, [0], builder.size(pieces.ids, 0))
        behind = op.Where(is_final, op.Gather(self.byte_lengths, rows), behind)
        end = self.at_bytes(rows, behind if pieces.ends is None else pieces.ends)
        pattern = f"[{escape(BLANKS)}]"
        is_inked = op.Not(op.RegexFullMatch(self._characters, pattern=pattern))
        inked = op.Squeeze(op.NonZero(is_inked), [0])
        ones = builder.cast(is_inked, "int64")
        before = op.CumSum(op.Concat(ones, [0], axis=0), 0, exclusive=1)
        following = op.Concat(inked, op.Shape(self._characters), axis=0)
        first = op.Min(op.Gather(following, op.Gather(before, start)), end)
        earlier = op.Concat([-1], inked, axis=0)
        last = op.Add(op.Gather(earlier, op.Gather(before, end)), 1)
        return first, op.Max(last, first)


def split(texts: "OnnxText", column: Any, pattern: str) -> tuple[Any, ...]:
    """Split texts into the matches of a pattern of RE2 and the parts between them.

    Returns the parts, their first bytes, the bytes after their last, their texts, and
    the number of each text's first part.
    """
    op, builder = texts.op, texts.builder
    group = op.Constant(value_strings=[f"({pattern})"])
    found = builder.texts.StringRegexSplitWithOffsets(column, group, group, _outputs=4)
    dtypes = ("string", "int64", "int64", "int64")
    parts, begins, ends, bounds = map(builder.typed, found, dtypes)
    firsts = op.Slice(bounds, [0], builder.size(column, 0))
    rows = texts.numbers(firsts, builder.size(begins, 0))
    return parts, begins, ends, rows, firsts


def split_words(texts: "OnnxText", column: Any) -> tuple[Any, ...]:
    """Return words, their first bytes, the bytes after their last, and their texts."""
    parts, *places, _ = split(texts, column, _word_pattern())
    is_space = texts.op.RegexFullMatch(parts, pattern=f"[{SPACES}]+")
    is_word = texts.op.Not(is_space)
    return tuple(texts.op.Compress(x, is_word, axis=0) for x in (parts, *places))


@cache
def _word_pattern() -> str:
    """Return the pattern of words for RE2.

    RE2 has neither Python's character classes nor lookbehind.
    """
    codes = (code for code in range(sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF)
    characters = "".join(map(chr, codes))
    kinds = {
        name: f"[{escape(re.findall(f'[{kind}]', characters))}]"
        for name, kind in character_kinds().items()
    }
    marks, sign = f"{kinds['mark']}*", kinds["sign"]
    return (
        f"{kinds['unspaced']}{marks}"
        f"|(?:{kinds['letter']}{marks})+"
        f"|{kinds['flag']}{{1,2}}{marks}"
        rf"|{sign}(?:{marks}\x{{{ord(JOINER):x}}}{sign})*{marks}"
    )


def escape(characters: Any) -> str:
    """Format characters as the content of RE2's `[...]`."""
    return escape_codes(np.array(sorted(map(ord, characters))))


def escape_codes(codes: Int64Array) -> str:
    """Format ascending codes of characters as the content of RE2's `[...]`."""
    parts = np.split(codes, np.flatnonzero(np.diff(codes) > 1) + 1)
    return "".join(rf"\x{{{part[0]:x}}}-\x{{{part[-1]:x}}}" for part in parts)
