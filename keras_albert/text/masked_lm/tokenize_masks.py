"""Tokenizes texts in which `[MASK]` is written out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_albert.text.tokenizer.token_rows import TokenRows
from keras_albert.types import IntArray


def tokenize_masks(tokenizer: Any, texts: Sequence[str]) -> TokenRows:
    """Tokenize texts, with `[MASK]` as the mask token.

    Text that follows `[MASK]` without a space continues its word: "[MASK]." is
    tokenized as `[MASK]` and ".", as "word." is in training.
    """
    mask = tokenizer.mask_token
    parts = [text.split(mask) for text in texts]
    # All parts of all texts in one multithreaded call.
    flat = [part for row in parts for part in row]
    tokens: TokenRows = tokenizer.tokenize_rows(flat, checked=True)
    if len(flat) == len(texts):
        return tokens
    mask_id = np.array([tokenizer.mask_token_id], np.int32)
    cut = iter(np.split(tokens.values, tokens.starts[1:]))
    rows = []
    for row in parts:
        ids = [next(cut)]
        for part in row[1:]:
            ids += [mask_id, _without_space(tokenizer, part, next(cut))]
        rows.append(np.concatenate(ids))
    return TokenRows.from_arrays(rows)


def _without_space(tokenizer: Any, text: str, ids: IntArray) -> IntArray:
    """Remove the space before a text, unless it begins with one."""
    if not len(ids) or text[0].isspace():
        return ids
    inner = tokenizer.vocabulary.inner_ids[ids[:1]]
    return np.concatenate([inner[inner >= 0], ids[1:]])
