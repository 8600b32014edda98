"""The validation set of a run: a fixed part of the held-out documents."""

import math
from dataclasses import dataclass
from typing import Any, Self

import keras
import numpy as np

from keras_albert.pretraining.data.dataset import PretrainingData
from keras_albert.text.masked_lm.whole_word_masking import MaskingRates
from keras_albert.types import Batch

# The same for every run, whatever it masks in training, so that runs are comparable:
# 15% of the tokens, single words, all of them replaced by [MASK].
EVALUATION_MASKS = MaskingRates(
    mask_selection_rate=0.15, mask_token_rate=1.0, random_token_rate=0.0, max_ngram=1
)

# The number of examples that are masked together.
_READ = 256


@dataclass(frozen=True)
class HeldOut:
    """Held-out examples as arrays, with fixed masks.

    Weights are scaled so that averages over batches of any size are averages over the
    masked tokens, or over the pairs.
    """

    arrays: Batch
    baselines: dict[str, float]
    characters_per_token: float

    @classmethod
    def read(
        cls,
        data: PretrainingData,
        max_examples: int,
        batch_size: int,
        sequence_length: int | None,
    ) -> Self:
        """Read the first examples."""
        count = min(max_examples, len(data))
        # Read in parts of fixed size, so that masks do not depend on the batch size.
        batches = data.batches(_READ, sequence_length, shuffle=False)
        parts = list(map(batches.batch, range(-(-count // _READ))))
        rows = np.minimum(np.arange(-(-count // batch_size) * batch_size), count - 1)
        x, y, weights = keras.tree.map_structure(
            lambda *arrays: np.concatenate(arrays)[rows], *parts
        )
        for each in keras.tree.flatten(weights):
            each[count:] = 0
        baselines = keras.tree.map_structure(_most_frequent, y, weights)
        if isinstance(baselines, float):
            baselines = {"masked_lm": baselines}
        weights = keras.tree.map_structure(lambda w: w * (w.size / w.sum()), weights)
        named = {f"{name}_accuracy": share for name, share in baselines.items()}
        labels, counted = _of_masked_tokens(y), _of_masked_tokens(weights)
        widths = np.array(list(map(len, data.tokenizer.vocabulary.texts)))
        return cls((x, y, weights), named, float(widths[labels[counted > 0]].mean()))

    def bits_per_character(self, masked_lm_loss: float) -> float:
        """Convert a loss per masked token, which depends on the vocabulary's size."""
        return masked_lm_loss / math.log(2) / self.characters_per_token

    @property
    def num_masked(self) -> int:
        """The number of masked tokens."""
        return int(np.count_nonzero(_of_masked_tokens(self.arrays[2])))


def _of_masked_tokens(values: Any) -> Any:
    return values["masked_lm"] if isinstance(values, dict) else values


def _most_frequent(labels: Any, weights: Any) -> float:
    """Return the accuracy of always predicting the most frequent label."""
    counts = np.bincount(labels[weights > 0])
    return float(counts.max() / counts.sum())
