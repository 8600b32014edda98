"""Contrastive training of the encoder on few labelled texts, before a linear head."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from keras_albert.data.labels import target_kind
from keras_albert.tasks.text_embedding.model import AlbertTextEmbedder
from keras_albert.types import Task

Labels = npt.NDArray[Any]

# Of the head after it, `C`.
CONTRASTIVE_STRENGTH = 0.1

# With an earlier head, all pairs or a rate of 1e-4 were no better; see
# `benchmarks/contrastive_labels.py`.
_STEPS, _BATCH_SIZE, _LEARNING_RATE = 40, 16, 5e-5


def train_encoder(
    classifier: Task, columns: Sequence[Any], y: Labels, rows: Labels, verbose: Any
) -> None:
    """Train the encoder of a classifier until texts of a class have similar vectors.

    Pairs of the texts in `rows`, whose classes are `y`, are drawn, half of one class,
    with a cosine of 1, half of two classes, with 0, as in
    [SetFit](https://arxiv.org/abs/2209.11055).
    """
    preprocessor = classifier.require_preprocessor("fit")
    if not target_kind(classifier).is_class or len(columns) > 1:
        raise ValueError(
            "`method='contrastive'` works for single texts with one class each. Pass "
            "`method='linear'`, or fine-tune."
        )
    if not classifier.backbone.trainable_variables:
        raise ValueError(
            "`method='contrastive'` trains the encoder, but it is frozen. Pass "
            "`method='linear'`."
        )
    embedder = AlbertTextEmbedder(
        classifier.backbone,
        AlbertTextEmbedder.preprocessor_cls(
            preprocessor.tokenizer,
            sequence_length=preprocessor.sequence_length,
            max_sequence_length=preprocessor.max_sequence_length,
        ),
    )
    embedder.compile(learning_rate=_LEARNING_RATE)
    pairs, is_same = draw_pairs(y)
    first, second = ([columns[0][row] for row in part] for part in rows[pairs].tolist())
    embedder.fit((first, second), is_same, batch_size=_BATCH_SIZE, verbose=verbose)


def draw_pairs(y: Labels) -> tuple[Labels, Labels]:
    """Return rows of pairs `(2, pairs)`, and whether each has one class."""
    random = np.random.default_rng(np.random.randint(2**31))
    count = _STEPS * _BATCH_SIZE
    first, is_same = random.integers(len(y), size=count), np.arange(count) % 2
    second = np.empty_like(first)
    for pair, (row, same) in enumerate(zip(first, is_same, strict=True)):
        others = np.flatnonzero((y == y[row]) == bool(same))
        second[pair] = random.choice(others[others != row])
    return np.stack([first, second]), is_same.astype("float32")
