"""The base class of the preprocessors that mask tokens."""

from typing import Any

import numpy as np

from keras_albert.text.masked_lm.batch_seeds import BatchSeeds, Seeds, TextSeeds
from keras_albert.text.masked_lm.examples import WrittenMasks
from keras_albert.text.masked_lm.tokenize_masks import tokenize_masks
from keras_albert.text.masked_lm.whole_word_masking import (
    MaskingRates,
    WholeWordMasking,
)
from keras_albert.text.packing.examples import Examples
from keras_albert.text.packing.pack import EncodedTexts, check_truncation
from keras_albert.text.preprocessor import AlbertPreprocessor
from keras_albert.text.tokenizer.albert_tokenizer import AlbertTokenizer
from keras_albert.types import FloatArray, Lengths, Purpose, Texts, Truncation


class MaskingPreprocessor(AlbertPreprocessor):
    """The part of a preprocessor that masks tokens.

    A subclass creates its examples in `_mask_examples`.
    """

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
        share_rows: bool = False,
        **kwargs: Any,
    ) -> None:
        check_truncation(truncate)
        if seed is not None and seed < 0:
            msg = f"`seed` is a number from 0 on, or None. Received: seed={seed}"
            raise ValueError(msg)
        super().__init__(
            *(tokenizer, sequence_length, max_sequence_length, length_buckets),
            share_rows=share_rows,
            **kwargs,
        )
        self.truncate = truncate
        self.mask_selection_rate = mask_selection_rate
        self.mask_selection_length = mask_selection_length
        self.mask_token_rate = mask_token_rate
        self.random_token_rate = random_token_rate
        self.max_ngram = max_ngram
        if (self._rates.mask_selection_length or 0) > self.max_length:
            msg = (
                f"`mask_selection_length` is at most {self.max_length}, the tokens in "
                f"a row. Received: mask_selection_length={mask_selection_length}"
            )
            raise ValueError(msg)
        self.seed = seed
        self._calls = 0
        self._masking: tuple[Any, WholeWordMasking] | None = None

    @property
    def _rates(self) -> MaskingRates:
        return MaskingRates(
            mask_selection_rate=self.mask_selection_rate,
            mask_token_rate=self.mask_token_rate,
            random_token_rate=self.random_token_rate,
            max_ngram=self.max_ngram,
            mask_selection_length=self.mask_selection_length,
        )

    @property
    def masking(self) -> WholeWordMasking:
        """The `WholeWordMasking` of the current vocabulary and rates, cached."""
        rates = self._rates
        key = (self.tokenizer.proto, rates)
        if self._masking is None or self._masking[0] != key:
            self._masking = key, WholeWordMasking(self.tokenizer, rates)
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
        self, purpose: Purpose, x: Texts, y: Any = None, sample_weight: Any = None
    ) -> tuple[Examples, bool]:
        """Tokenize texts for training, evaluation or prediction.

        Args:
            purpose: `"training"`, with other masks each time; `"evaluation"`, with
                masks that depend on the text alone; or `"prediction"`, which masks only
                the `[MASK]` of texts.
            x: Texts or pairs, in any form that `text_columns` reads.
            y: Must be `None`: targets come from the texts. Defaults to `None`.
            sample_weight: Weights, one per example. Defaults to `None`.

        Returns:
            The examples, and whether `x` was a batch.

        Raises:
            TypeError: If `x` has an unknown type.
            ValueError: If a row is not a text, or there are targets.
        """
        if y is not None:
            msg = (
                "A masked language model makes its targets from the texts, and there "
                f"are others: {str(y)[:80]!r}. Leave them out; a pair of texts is one "
                "argument, `x=(first, second)`."
            )
            raise ValueError(msg)
        columns, batched = self.columns(x)
        if purpose == "prediction":
            rows = tuple(tokenize_masks(self.tokenizer, column) for column in columns)
            mask_id = self.tokenizer.mask_token_id
            return WrittenMasks(self._texts(rows), mask_id), batched
        rows = tuple(
            self.tokenizer.tokenize_rows(column, checked=True) for column in columns
        )
        seeds: Seeds
        if purpose == "evaluation":
            seeds = TextSeeds(self.seed or 0, rows)
        else:
            self._calls += 1
            # `keras.utils.set_random_seed` sets NumPy's global generator.
            seed = np.random.randint(2**31) if self.seed is None else self.seed
            seeds = BatchSeeds([seed, self._calls], len(rows[0]))
        return self._mask_examples(rows, seeds, sample_weight), batched

    def _mask_examples(
        self, columns: Any, seeds: Seeds, sample_weight: FloatArray | None
    ) -> Examples:
        """Create the examples from tokenized columns."""
        raise NotImplementedError

    def _texts(self, columns: Any) -> EncodedTexts:
        return EncodedTexts(columns, self.special_ids, self.max_length, self.truncate)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        config = super().get_config()
        config.update(
            truncate=self.truncate,
            mask_selection_rate=self.mask_selection_rate,
            mask_selection_length=self.mask_selection_length,
            mask_token_rate=self.mask_token_rate,
            random_token_rate=self.random_token_rate,
            max_ngram=self.max_ngram,
            seed=self.seed,
        )
        return config
