"""Tokenizing texts with a WordPiece vocabulary in an ONNX graph."""

import json
import re
from typing import Any

from keras_albert.serving.onnx.builder import TABLE_DOMAIN
from keras_albert.serving.onnx.words import escape_codes, split
from keras_albert.text.tokenizer.word_piece import (
    ALONE,
    CONTINUES,
    DROPPED,
    LONGEST_WORD,
    SPACE,
    character_table,
    is_of_kind,
    replacements,
)


class OnnxWordPiece:
    """The tokenizer of a WordPiece vocabulary, as operations of a graph.

    As in TensorFlow, the text rules are a table of characters (see `character_table`).
    The operation `WordpieceTokenizer` of onnxruntime-extensions splits the words.
    """

    def __init__(self, texts: Any, vocabulary: Any) -> None:
        self.texts = texts
        self.op, self.builder = texts.op, texts.builder
        self.vocabulary = vocabulary
        self.builder.graph.opset_imports[TABLE_DOMAIN] = 2
        self.unknown = vocabulary.special_tokens["unk_token"]
        self._never_split = sorted(vocabulary.rules.never_split, key=len, reverse=True)

    def tokenize(self, column: Any) -> tuple[Any, Any, Any, Any]:
        """Return all ids, int64; where each begins and ends in bytes; and its text."""
        op = self.op
        if not self._never_split:
            return self._without_overlap(*self._pieces(column))
        pattern = "|".join(map(re.escape, self._never_split))
        parts, begins, ends, rows, _ = split(self.texts, column, pattern)
        known = [self.vocabulary.ids[token] for token in self._never_split]
        own = self._look_up(parts, self._never_split, known, -1)
        # A word that is too long is one piece.
        one = self.builder.string("a" * (LONGEST_WORD + 1))
        parts = op.Where(op.GreaterOrEqual(own, 0), one, parts)
        ids, starts, stops, part = self._pieces(parts)
        first, own = op.Gather(begins, part), op.Gather(own, part)
        is_own = op.GreaterOrEqual(own, 0)
        stops = op.Where(is_own, op.Gather(ends, part), op.Add(stops, first))
        return self._without_overlap(
            op.Where(is_own, own, ids),
            op.Add(starts, first),
            stops,
            op.Gather(rows, part),
        )

    def _without_overlap(self, *pieces: Any) -> tuple[Any, Any, Any, Any]:
        """Give the text of a character to the last of its pieces."""
        op = self.op
        ids, starts, ends, rows = pieces
        following = (self._behind(starts), self._behind(rows))
        is_same = op.Equal(following[1], rows)
        return ids, starts, op.Where(is_same, op.Min(ends, following[0]), ends), rows

    def _behind(self, values: Any) -> Any:
        """Return the next value of each one, -1 for the last."""
        count = self.builder.size(values, 0)
        moved = self.op.Concat(self.op.Slice(values, [1], [2**31]), [-1], axis=0)
        return self.op.Slice(moved, [0], count)

    def _look_up(
        self, strings: Any, keys: list[str], values: list[int], default: int
    ) -> Any:
        """Map strings to integers."""
        return self.builder.tables.LabelEncoder(
            strings, keys_strings=keys, values_int64s=values, default_int64=default
        )

    def _is_of(self, characters: Any, *kinds: int) -> Any:
        """Return whether characters are of some kinds."""
        codes = is_of_kind(character_table(self.vocabulary.rules), *kinds)
        codes = codes[(codes < 0xD800) | (codes > 0xDFFF)]
        pattern = f"[{escape_codes(codes)}]"
        return self.op.RegexFullMatch(characters, pattern=f"(?s){pattern}")

    def _pieces(self, column: Any) -> tuple[Any, Any, Any, Any]:
        op, builder, texts = self.op, self.builder, self.texts
        characters, begins, ends, rows, _ = split(texts, column, "(?s).")
        is_kept = op.Not(self._is_of(characters, DROPPED))
        characters, begins, ends, rows = (
            op.Compress(x, is_kept, axis=0) for x in (characters, begins, ends, rows)
        )
        is_space = self._is_of(characters, SPACE)
        is_inside = op.Not(op.Or(is_space, self._is_of(characters, ALONE)))
        # A character goes on a word if it and the one before it are inside words.
        inside = builder.cast(is_inside, "int64")
        before = op.Slice(op.Concat([0], inside, axis=0), [0], [-1])
        row_before = op.Slice(op.Concat([-1], rows, axis=0), [0], [-1])
        goes_on = op.And(is_inside, builder.cast(before, "bool"))
        goes_on = op.And(goes_on, op.Equal(rows, row_before))
        is_inked = op.Not(is_space)
        characters, begins, ends, rows, goes_on = (
            op.Compress(x, is_inked, axis=0)
            for x in (characters, begins, ends, rows, goes_on)
        )
        opens = op.Not(goes_on)
        word_rows = op.Compress(rows, opens, axis=0)
        firsts = op.Compress(texts.positions(rows), opens, axis=0)

        # New characters, and all words in one string.
        replaced, lengths = self._replaced(characters)
        spaced = op.StringConcat(
            op.Where(opens, builder.string(" "), builder.string("")), replaced
        )
        spaced = op.Concat(op.Constant(value_strings=[""]), spaced, axis=0)
        whole = builder.texts.StringJoin(spaced, op.Constant(value_strings=[""]), [0])
        whole = op.Reshape(builder.typed(whole, "string"), [1])
        words, _ = op.StringSplit(whole, delimiter=" ", _outputs=2)
        # Nothing stands before the first space.
        words = op.Slice(op.Reshape(words, [-1]), [1], [2**31])
        tokens, _, token_begins, _ = builder.texts.WordpieceTokenizer(
            words,
            op.Slice(rows, [0], [0]),
            vocab=json.dumps(self.vocabulary.ids),
            suffix_indicator=CONTINUES,
            unknown_token=self.unknown,
            max_input_chars_per_word=LONGEST_WORD,
            _outputs=4,
        )
        tokens = builder.typed(tokens, "string")
        token_begins = builder.typed(token_begins, "int64")
        pieces = list(self.vocabulary.pieces)
        unknown = self.vocabulary.unknown_id
        ids = self._look_up(tokens, pieces, list(range(len(pieces))), unknown)
        word = texts.numbers(token_begins, builder.size(ids, 0))
        # The pieces before an unknown one stay; of the word, only that is a token.
        count = builder.size(ids, 0)
        lasts = op.Concat(op.Slice(token_begins, [1], [2**31]), count, axis=0)
        lasts = op.Sub(op.Slice(lasts, [0], builder.size(token_begins, 0)), 1)
        is_unknown = op.Equal(op.Gather(ids, op.Gather(lasts, word)), unknown)
        is_one = op.Or(op.Not(is_unknown), op.Equal(ids, unknown))
        ids, word = (op.Compress(x, is_one, axis=0) for x in (ids, word))

        # From new characters to those of the texts.
        new_begins = op.CumSum(lengths, 0, exclusive=1)
        total = op.ReduceSum(lengths, keepdims=1)
        source = texts.numbers(new_begins, total)
        word_begins = op.Gather(new_begins, firsts)
        word_ends = op.Slice(op.Concat(word_begins, total, axis=0), [1], [2**31])
        sizes = [len(piece.removeprefix(CONTINUES)) for piece in pieces]
        size = op.Gather(op.Constant(value_ints=sizes), ids)
        is_whole = op.Equal(ids, unknown)
        base, limit = op.Gather(word_begins, word), op.Gather(word_ends, word)
        size = op.Where(is_whole, op.Sub(limit, base), size)
        start = op.CumSum(size, 0, exclusive=1)
        last = op.Sub(op.Add(start, size), 1)
        starts = op.Gather(begins, op.Gather(source, start))
        ends = op.Gather(ends, op.Gather(source, last))
        return ids, starts, ends, op.Gather(word_rows, word)

    def _replaced(self, characters: Any) -> tuple[Any, Any]:
        """Return the text that replaces each character, and its length."""
        rules = self.vocabulary.rules
        known = {c for piece in self.vocabulary.pieces for c in piece}
        # Stands for all characters that no piece contains.
        unknown = next(c for c in map(chr, range(0xFFFD, 0, -1)) if c not in known)
        values, lengths = {}, {}
        for code, text in enumerate(
            replacements(rules.lowercase, bool(rules.strip_accents), rules.split_cjk)
        ):
            new = text.strip(" ")
            # Of an unknown word, only the number of characters matters.
            if new and known.issuperset(new):
                values[chr(code)] = new
            elif len(new) > 1:
                values[chr(code)] = unknown * len(new)
            if len(new) > 1:
                lengths[chr(code)] = len(new)
        replaced = self.builder.tables.LabelEncoder(
            characters,
            keys_strings=list(values),
            values_strings=list(values.values()),
            default_string=unknown,
        )
        if not lengths:
            return replaced, self.op.Expand([1], self.builder.size(characters, 0))
        keys, sizes = list(lengths), list(lengths.values())
        return replaced, self._look_up(characters, keys, sizes, 1)
