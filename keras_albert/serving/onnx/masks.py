"""Tokenizing texts with `[MASK]` in an ONNX graph."""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.serving.onnx.text import OnnxText, Pieces
from keras_albert.text.masked_lm.tokenize_masks import without_space

_SPACES = "".join(filter(str.isspace, map(chr, range(sys.maxunicode + 1))))


def tokenize_masks(texts: OnnxText, *columns: Any) -> list[Pieces]:
    """Implement the function of this name in `keras_albert.text`.

    Args:
        texts: The graph's tokenization.
        *columns: string `(texts,)` each.

    Returns:
        `Pieces` of each column.
    """
    op, builder = texts.op, texts.builder
    tokenizer = texts.preprocessor.tokenizer
    mask = tokenizer.mask_token
    rows = builder.join(columns, 0) if len(columns) > 1 else columns[0]
    # An extra mask, removed below, because an empty string splits into no parts.
    parts, counts = op.StringSplit(
        op.StringConcat(rows, builder.string(mask)), delimiter=mask, _outputs=2
    )
    number = op.Range(0, op.Squeeze(builder.size(parts, 1)), 1)
    is_part = op.Less(number, op.Sub(op.Unsqueeze(counts, [1]), 1))
    is_behind = op.Reshape(op.And(is_part, op.Greater(number, 0)), [-1])
    masks = builder.cast(is_behind, "int64")
    flat = op.Reshape(op.Where(is_part, parts, builder.string("")), [-1])
    (pieces,) = texts.tokenize(flat)
    owner = texts.owners(pieces)

    # A part that begins without a space continues the word of the mask.
    goes_on = op.And(
        is_behind, op.Not(op.RegexFullMatch(flat, pattern=f"(?s)[{_SPACES}].*"))
    )
    place = texts.positions(pieces.ids)
    is_inner = op.And(
        op.Equal(place, op.Gather(pieces.begins, owner)), op.Gather(goes_on, owner)
    )
    inner = op.Gather(
        builder.constant(_inner_pieces(tokenizer), "inner_pieces"), pieces.ids
    )
    ids = op.Where(is_inner, inner, pieces.ids)
    is_kept = op.GreaterOrEqual(ids, 0)
    ids, owner = (op.Compress(x, is_kept, axis=0) for x in (ids, owner))

    # Put the mask before each part, and join parts to texts.
    lengths = op.ScatterElements(
        masks, owner, op.Add(op.Mul(owner, 0), 1), reduction="add"
    )
    before = op.CumSum(masks, 0)
    place = texts.positions(ids)
    total = op.ReduceSum(lengths, keepdims=1)
    filled = op.Expand([tokenizer.mask_token_id], total)
    filled = op.ScatterElements(filled, op.Add(place, op.Gather(before, owner)), ids)
    lengths = op.Reshape(lengths, op.Shape(parts), allowzero=1)
    lengths = op.ReduceSum(lengths, [1], keepdims=0)
    begins = op.CumSum(lengths, 0, exclusive=1)
    return texts.split(Pieces(filled, begins, lengths), *columns)


def _inner_pieces(tokenizer: Any) -> npt.NDArray[np.int64]:
    """Map each id to that of the same piece without a leading space, or -1."""
    size = tokenizer.vocabulary_size()
    rows = [np.array([token], np.int32) for token in range(size)]
    inner = [without_space(tokenizer, "x", row) for row in rows]
    return np.array([row[0] if len(row) else -1 for row in inner], np.int64)
