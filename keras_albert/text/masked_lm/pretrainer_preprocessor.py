"""Preprocessor of the pretraining model."""

from typing import Any

import keras
import keras_hub

from keras_albert.text.inputs.read_text_columns import MAX_COLUMNS, text_columns
from keras_albert.text.masked_lm.base_preprocessor import MaskingPreprocessor
from keras_albert.text.masked_lm.batch_seeds import Seeds
from keras_albert.text.masked_lm.examples import SegmentPairs
from keras_albert.types import FloatArray, Texts


def segment_pairs(x: Texts) -> tuple[tuple[Any, ...], bool]:
    """Read pairs into columns; see `text_columns`."""
    columns, batched = text_columns(x)
    if len(columns) != MAX_COLUMNS:
        msg = (
            "The order of segments is learned from pairs, and these are single "
            f"texts: {str(columns[0][:1])[:80]}. Pass `(first, second)`, lists of "
            "segments that follow each other, or a list of pairs."
        )
        raise ValueError(msg)
    return columns, batched


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertPretrainerPreprocessor(MaskingPreprocessor, keras_hub.models.Preprocessor):
    """Tokenize pairs of consecutive segments, swap half of them, and mask words.

    Returns `(x, y, sample_weight)`: `x` is that of `AlbertMaskedLMPreprocessor`, `y`
    and `sample_weight` are dicts of `masked_lm` and `sentence_order`, whose target is
    0 for a pair in order and 1 for a swapped pair. Swaps and masks differ with each
    call and each epoch.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), section 3.1.

    Args:
        tokenizer: An `AlbertTokenizer`.
        sequence_length: int or `None`. See `AlbertClassifierPreprocessor`. Defaults to
            `None`.
        max_sequence_length: int. See `AlbertClassifierPreprocessor`. Defaults to `512`.
        length_buckets: Sequence of int or `None`. See `AlbertClassifierPreprocessor`.
            Defaults to `None`.
        truncate: string. `"round_robin"` or `"waterfall"`. Defaults to
            `"round_robin"`.
        mask_selection_rate: float. See `AlbertMaskedLMPreprocessor`. Defaults to
            `0.15`.
        mask_selection_length: int or `None`. See `AlbertMaskedLMPreprocessor`.
            Defaults to `None`.
        mask_token_rate: float. See `AlbertMaskedLMPreprocessor`. Defaults to `0.8`.
        random_token_rate: float. See `AlbertMaskedLMPreprocessor`. Defaults to `0.1`.
        max_ngram: int. See `AlbertMaskedLMPreprocessor`. Defaults to `3`.
        seed: int or `None`. Makes masks and swaps reproducible. Defaults to `None`,
            which uses `keras.utils.set_random_seed`.
        share_rows: bool. See `AlbertClassifierPreprocessor`. Defaults to `False`.
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length, a rate or a count is out of range.

    Example:
        >>> from keras_albert import AlbertPretrainerPreprocessor, AlbertTokenizer
        >>> from keras_albert.text import train_vocabulary
        >>> words = ["the quick brown fox", "jumped over the lazy dog"] * 20
        >>> tokenizer = AlbertTokenizer(train_vocabulary(words, vocabulary_size=40))
        >>> preprocessor = AlbertPretrainerPreprocessor(tokenizer, seed=1)
        >>> x, y, _ = preprocessor([("the fox", "jumped"), ("the dog", "the fox")])
        >>> x["mask_positions"].shape == y["masked_lm"].shape
        True
        >>> y["sentence_order"].shape
        (2,)
    """

    read_input = staticmethod(segment_pairs)

    def _mask_examples(
        self, columns: Any, seeds: Seeds, sample_weight: FloatArray | None
    ) -> SegmentPairs:
        in_order, swapped = self._texts(columns), self._texts(columns[::-1])
        return SegmentPairs(in_order, swapped, self.masking, seeds, sample_weight)
