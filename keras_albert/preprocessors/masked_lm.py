"""Preprocessors of masked language modeling and pretraining."""

from dataclasses import fields
from typing import Any

import keras
import keras_hub
import numpy as np

from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessors.preprocessor import AlbertPreprocessor
from keras_albert.text.masking import (
    MaskedTexts,
    MaskingRates,
    RowSeeds,
    SegmentPairs,
    WholeWordMasking,
    WrittenMasks,
    hashed,
    text_keys,
    tokenize_masks,
)
from keras_albert.text.packing import EncodedTexts, Examples, TokenRows
from keras_albert.text.reading import MAX_COLUMNS, text_columns
from keras_albert.types import FloatArray, Lengths, Mode, Texts, Truncation
from keras_albert.utils.arguments import check_at_least, check_at_most, check_choice

_MASKING_ARGUMENTS = """\
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
    seed: int or `None`. Makes masks and swaps reproducible. Defaults to `None`, which
        uses `keras.utils.set_random_seed`.
"""


class MaskingPreprocessor(AlbertPreprocessor):
    """Base class of preprocessors that mask tokens."""

    _shared_arguments = AlbertPreprocessor._shared_arguments + _MASKING_ARGUMENTS
    truncate: Truncation

    def __init__(
        self,
        tokenizer: AlbertTokenizer,
        sequence_length: int | None = None,
        max_sequence_length: int = 512,
        length_buckets: Lengths | None = None,
        truncate: Truncation = "round_robin",
        mask_selection_rate: float = 0.15,
        mask_selection_length: int | None = None,
        mask_token_rate: float = 0.8,
        random_token_rate: float = 0.1,
        max_ngram: int = 3,
        seed: int | None = None,
        pack_sequences: bool = False,
        **kwargs: Any,
    ) -> None:
        check_choice(("round_robin", "waterfall"), truncate=truncate)
        check_at_least(0, seed=seed or 0)
        lengths = sequence_length, max_sequence_length, length_buckets
        super().__init__(tokenizer, *lengths, pack_sequences, **kwargs)
        self.truncate = truncate
        self.mask_selection_rate = mask_selection_rate
        self.mask_selection_length = mask_selection_length
        self.mask_token_rate = mask_token_rate
        self.random_token_rate = random_token_rate
        self.max_ngram = max_ngram
        slots = self._rates.mask_selection_length or 0
        check_at_most(self.max_length, mask_selection_length=slots)
        self.seed = seed
        self._calls = 0
        self._masking: tuple[Any, WholeWordMasking] | None = None

    @property
    def _rates(self) -> MaskingRates:
        names = (each.name for each in fields(MaskingRates))
        return MaskingRates(**{name: getattr(self, name) for name in names})

    @property
    def masking(self) -> WholeWordMasking:
        """The `WholeWordMasking` of the current vocabulary and rates, cached."""
        rates = self._rates
        key = (self.tokenizer.proto, rates)
        if self._masking is None or self._masking[0] != key:
            self._masking = key, WholeWordMasking(self.tokenizer.vocabulary, rates)
        return self._masking[1]

    def mask_slots(self, width: int) -> int:
        """Return the number of `mask_positions` of rows of some width."""
        return self.masking.rates.slots(width)

    def encode(
        self, x: Texts, y: Any = None, sample_weight: Any = None
    ) -> tuple[Examples, bool]:
        """Tokenize texts with other masks in each call; see `encode_for`."""
        return self.encode_for("training", x, y, sample_weight)

    def encode_for(
        self, mode: Mode, x: Texts, y: Any = None, sample_weight: Any = None
    ) -> tuple[Examples, bool]:
        """Tokenize texts; only in training masks differ each time."""
        # In prediction only the `[MASK]` of texts are masked.
        if y is not None:
            raise ValueError(
                "A masked language model makes its targets from the texts. Leave out "
                f"`y`, or pass a pair as `x=(first, second)`. Received: y={y!r:.80}"
            )
        columns, batched = self.columns(x)
        if mode == "prediction":
            tokenizer = self.tokenizer
            vocabulary, length = tokenizer.vocabulary, tokenizer.sequence_length
            rows = tuple(tokenize_masks(vocabulary, each, length) for each in columns)
            return WrittenMasks(self._texts(rows), tokenizer.mask_token_id), batched
        rows = self.tokenize_columns(columns)
        if mode == "evaluation":
            seeds = RowSeeds(text_keys(self.seed or 0, rows), are_fixed=True)
        else:
            self._calls += 1
            # `keras.utils.set_random_seed` sets NumPy's global generator.
            seed = np.random.randint(2**31) if self.seed is None else self.seed
            seeds = RowSeeds(hashed(seed, self._calls, np.arange(len(rows[0]))))
        return self._mask_examples(rows, seeds, sample_weight), batched

    def _mask_examples(
        self,
        columns: tuple[TokenRows, ...],
        seeds: RowSeeds,
        sample_weight: FloatArray | None,
    ) -> MaskedTexts:
        """Create the examples from tokenized columns."""
        return MaskedTexts(self._texts(columns), self.masking, seeds, sample_weight)

    def _texts(self, columns: tuple[TokenRows, ...]) -> EncodedTexts:
        return EncodedTexts(columns, self.special_ids, self.max_length, self.truncate)


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
        {shared}
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length, a rate or a count is out of range.

    Example:
        >>> from keras_albert import AlbertMaskedLMPreprocessor
        >>> preprocessor = AlbertMaskedLMPreprocessor.from_preset(
        ...     "albert_tiny_en_uncased", sequence_length=16)
        >>> x, y, sample_weight = preprocessor(["the quick fox", "the lazy dog"])
        >>> x["token_ids"].shape, x["mask_positions"].shape, y.shape
        ((2, 16), (2, 5), (2, 5))
    """


def segment_pairs(x: Texts) -> tuple[tuple[Any, ...], bool]:
    """Read pairs into columns; see `text_columns`."""
    columns, batched = text_columns(x)
    if len(columns) != MAX_COLUMNS:
        raise ValueError(
            "The order of segments is learned from pairs, but these are single texts: "
            f"{str(columns[0][:1])[:80]}. Pass `(first, second)`, lists of segments "
            "that follow each other, or a data set of `((first, second),)`."
        )
    return columns, batched


@keras.saving.register_keras_serializable(package="keras_albert")
class AlbertPretrainerPreprocessor(MaskingPreprocessor, keras_hub.models.Preprocessor):
    """Tokenize pairs of consecutive segments, swap half of them, and mask words.

    Returns `(x, y, sample_weight)`: `x` is as in `AlbertMaskedLMPreprocessor`, `y`
    and `sample_weight` are dicts of `masked_lm` and `sentence_order`, whose target is
    0 for a pair in order and 1 for a swapped pair. Swaps and masks differ with each
    call and each epoch.

    Source: [Lan et al., 2020](https://arxiv.org/abs/1909.11942), section 3.1.

    Args:
        {shared}
        **kwargs: `name`, as for any Keras layer.

    Raises:
        ValueError: If a length, a rate or a count is out of range.

    Example:
        >>> from keras_albert import AlbertPretrainerPreprocessor
        >>> preset = "albert_tiny_en_uncased"
        >>> preprocessor = AlbertPretrainerPreprocessor.from_preset(preset)
        >>> x, y, _ = preprocessor([("the fox", "jumped"), ("the dog", "the fox")])
        >>> x["mask_positions"].shape == y["masked_lm"].shape
        True
        >>> y["sentence_order"].shape
        (2,)
    """

    read_input = staticmethod(segment_pairs)

    def _mask_examples(
        self,
        columns: tuple[TokenRows, ...],
        seeds: RowSeeds,
        sample_weight: FloatArray | None,
    ) -> SegmentPairs:
        how = self._texts(columns), self.masking, seeds, sample_weight
        return SegmentPairs(*how, swapped=self._texts(columns[::-1]))
