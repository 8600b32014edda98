"""Preprocessor of the masked language model."""

from typing import Any

import keras
import keras_hub

from keras_albert.text.masked_lm.base_preprocessor import MaskingPreprocessor
from keras_albert.text.masked_lm.batch_seeds import Seeds
from keras_albert.text.masked_lm.examples import MaskedTexts
from keras_albert.types import FloatArray


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertMaskedLMPreprocessor(
    MaskingPreprocessor, keras_hub.models.MaskedLMPreprocessor
):
    """Tokenize texts, pack them, and mask whole words.

    Returns `(x, y, sample_weight)`: `x` contains `token_ids`, `segment_ids`,
    `padding_mask` and `mask_positions`; `y` contains the original ids at these
    positions; the weights are 0 for unused positions. Masks differ with each call and
    each epoch. See `WholeWordMasking` for how masks are drawn.

    Args:
        tokenizer: An `AlbertTokenizer`.
        sequence_length: int or `None`. See `AlbertClassifierPreprocessor`. Defaults to
            `None`.
        max_sequence_length: int. See `AlbertClassifierPreprocessor`. Defaults to `512`.
        length_buckets: Sequence of int or `None`. See `AlbertClassifierPreprocessor`.
            Defaults to `None`.
        truncate: string. `"round_robin"` or `"waterfall"`. Defaults to
            `"round_robin"`.
        mask_selection_rate: float. The fraction of a row's tokens to predict; 0 masks
            nothing. Defaults to `0.15`.
        mask_selection_length: int or `None`. The number of predictions per row.
            Defaults to `None`, the rate times the padded length plus `max_ngram`.
        mask_token_rate: float. The fraction of selected tokens that are replaced by
            `[MASK]`. Defaults to `0.8`.
        random_token_rate: float. The fraction of selected tokens that are replaced by
            a random token; the others are unchanged. Defaults to `0.1`.
        max_ngram: int. The maximum number of consecutive words that are masked
            together. Defaults to `3`.
        seed: int or `None`. Makes the masks reproducible. Defaults to `None`, which
            uses `keras.utils.set_random_seed`.
        share_rows: bool. See `AlbertClassifierPreprocessor`. Defaults to `False`.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length, a rate or a count is out of range.

    Example:
        >>> from keras_albert import AlbertMaskedLMPreprocessor, AlbertTokenizer
        >>> from keras_albert.text import train_vocabulary
        >>> words = ["the quick brown fox", "jumped over the lazy dog"] * 20
        >>> tokenizer = AlbertTokenizer(train_vocabulary(words, vocabulary_size=40))
        >>> preprocessor = AlbertMaskedLMPreprocessor(
        ...     tokenizer, sequence_length=16, seed=1)
        >>> x, y, sample_weight = preprocessor(["the quick fox", "the lazy dog"])
        >>> x["token_ids"].shape, x["mask_positions"].shape, y.shape
        ((2, 16), (2, 6), (2, 6))
    """

    def _mask_examples(
        self, columns: Any, seeds: Seeds, sample_weight: FloatArray | None
    ) -> MaskedTexts:
        return MaskedTexts(self._texts(columns), self.masking, seeds, sample_weight)
