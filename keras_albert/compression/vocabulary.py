"""What a model has for each token, for the tokens of another vocabulary."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer
from keras_albert.text.tokenizer.vocabularies import Vocabulary
from keras_albert.types import FloatArray


def read_tokenizer(vocabulary: Any) -> AlbertTokenizer:
    """Return the tokenizer of the argument `vocabulary` of `compress`."""
    if isinstance(vocabulary, str | os.PathLike):
        if Path(vocabulary).is_file():
            return AlbertTokenizer(vocabulary)
        return AlbertTokenizer.from_preset(vocabulary)
    tokenizer = getattr(vocabulary, "tokenizer", vocabulary)
    if not isinstance(tokenizer, AlbertTokenizer):
        raise TypeError(
            "`vocabulary` is an `AlbertTokenizer`, a preprocessor with one, or the "
            "path of a vocabulary or a preset. Received a vocabulary of type "
            f"{type(vocabulary).__name__}."
        )
    tokenizer.vocabulary_size()  # which raises without a vocabulary
    return tokenizer


def own_vocabulary(model: Any) -> Vocabulary:
    """Return the vocabulary of a task."""
    tokenizer = getattr(getattr(model, "preprocessor", None), "tokenizer", None)
    if tokenizer is None:
        raise ValueError(
            "Another `vocabulary` starts from the model's own, which is in the "
            f"preprocessor of a task, and this {type(model).__name__} has none. Pass a "
            "task, such as a masked language model, with its preprocessor."
        )
    vocabulary: Vocabulary = tokenizer.vocabulary
    return vocabulary


class TokenMeans:
    """Maps what a model holds for each token to the tokens of another vocabulary.

    A piece that both vocabularies have keeps its values. Any other has the mean of the
    pieces that the old vocabulary splits its text into; where it stands inside a word,
    the first of them does as well. Special tokens have those of their role, and a piece
    without text the mean of all.
    """

    def __init__(self, new: Vocabulary, old: Vocabulary) -> None:
        begins, texts = old.begins_word, [text.strip(" ") for text in old.texts]
        known = {(texts[i], bool(begins[i])): int(i) for i in old.text_ids}
        wanted = [text.strip(" ") for text in new.texts]
        self._all = old.text_ids
        self._pieces: list[list[int]] = []
        for text, is_first, split in zip(
            wanted, new.begins_word.tolist(), old.encode(wanted), strict=True
        ):
            pieces = split.tolist()
            if (same := known.get((text, is_first))) is not None:
                pieces = [same]
            elif not is_first:
                # The space before the text, alone or with the first piece.
                pieces = [i for i in pieces if texts[i]]
                pieces[:1] = [known.get((texts[i], False), i) for i in pieces[:1]]
            self._pieces.append(pieces)
        for role, token in new.special_tokens.items():
            self._pieces[new.ids[token]] = [old.ids[old.special_tokens[role]]]

    def __call__(self, values: FloatArray) -> FloatArray:
        """Return `(new tokens, ...)` for an array `(old tokens, ...)`."""
        mean = values[self._all].mean(axis=0)
        return np.stack(
            [values[pieces].mean(axis=0) if pieces else mean for pieces in self._pieces]
        )
