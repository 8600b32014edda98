"""Preprocessors of masked language modeling and pretraining, and their examples."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import keras
import keras_hub
import numpy as np

from keras_albert.preprocessors.albert_tokenizer import AlbertTokenizer
from keras_albert.preprocessors.preprocessor import AlbertPreprocessor
from keras_albert.text.masking import MaskingRates, WholeWordMasking
from keras_albert.text.packing import EncodedTexts, Examples, check_truncation
from keras_albert.text.random_rows import (
    Draws,
    RowSeeds,
    UInt64Array,
    hashed,
    number_in_row,
    uniform,
)
from keras_albert.text.reading import MAX_COLUMNS, text_columns
from keras_albert.text.tokenizer.token_rows import TokenRows, ragged_range
from keras_albert.types import (
    Batch,
    FloatArray,
    Int64Array,
    IntArray,
    Lengths,
    Mode,
    Texts,
    Truncation,
)


def text_keys(seed: int, columns: tuple[TokenRows, ...]) -> UInt64Array:
    """Return a key for each row, by the seed and the row's tokens alone."""
    numbers: list[Any] = []
    for column in columns:
        places = ragged_range(np.zeros_like(column.lengths), column.lengths)
        sums = np.append(np.uint64(0), np.cumsum(hashed(column.values, places)))
        begins = column.starts
        numbers += [column.lengths, sums[begins + column.lengths] - sums[begins]]
    return hashed(seed, *numbers)


@dataclass
class MaskedTexts:
    """Texts that are masked when they are packed; see `Examples`."""

    texts: EncodedTexts
    masking: WholeWordMasking
    seeds: RowSeeds
    sample_weight: FloatArray | None = None
    lengths: Int64Array = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = self.texts.lengths

    def __len__(self) -> int:
        return len(self.texts)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack and mask some rows; see `Examples`."""
        packed = self.texts.pack(rows, length)
        masked = self.masking(packed["token_ids"], self.seeds.draws(rows))
        x = packed | {"token_ids": masked.token_ids, "mask_positions": masked.positions}
        weights = masked.weights
        if self.sample_weight is not None:
            weights = weights * self.sample_weight[rows, None]
        return x, masked.labels, weights


class MaskedPairs(NamedTuple):
    """A batch of masked pairs; `changed` is 1 for a changed pair."""

    x: dict[str, IntArray]
    labels: IntArray
    weights: FloatArray
    changed: IntArray


def draw_pairs(
    pairs: EncodedTexts,
    changed_pairs: EncodedTexts,
    masking: WholeWordMasking,
    draws: Draws,
    rows: Int64Array,
    length: int,
) -> MaskedPairs:
    """Pack some pairs, change each with probability 0.5, and mask them."""
    changed = uniform(draws, np.arange(len(rows))) < 0.5
    x: dict[str, IntArray] = {}
    for texts, here in ((pairs, ~changed), (changed_pairs, changed)):
        for name, packed in texts.pack(rows[here], length).items():
            x.setdefault(name, np.empty((len(rows), length), np.int32))[here] = packed
    masked = masking(x["token_ids"], draws)
    x |= {"token_ids": masked.token_ids, "mask_positions": masked.positions}
    return MaskedPairs(x, masked.labels, masked.weights, changed.astype(np.int32))


@dataclass
class SegmentPairs(MaskedTexts):
    """Pairs that are swapped with probability 0.5, and masked, when they are packed."""

    swapped: EncodedTexts = field(kw_only=True)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack, swap and mask some pairs; see `Examples`."""
        draws = self.seeds.draws(rows)
        drawn = draw_pairs(self.texts, self.swapped, self.masking, draws, rows, length)
        y = {"masked_lm": drawn.labels, "sentence_order": drawn.changed}
        weight = np.ones(len(rows), np.float32)
        if self.sample_weight is not None:
            weight = self.sample_weight[rows]
        weights = {
            "masked_lm": drawn.weights * weight[:, None],
            "sentence_order": weight,
        }
        return drawn.x, y, weights


class WrittenMasks:
    """Texts that contain mask tokens to fill; see `Examples`."""

    def __init__(self, texts: EncodedTexts, mask_token_id: int) -> None:
        self.texts = texts
        self.lengths = texts.lengths
        self.mask_token_id = mask_token_id
        # The number of masks in each row before truncation.
        self.written = np.zeros(len(texts), np.int64)
        for column in texts.columns:
            row = np.repeat(np.arange(len(texts)), column.lengths)
            masks = row[column.values == mask_token_id]
            self.written += np.bincount(masks, minlength=len(texts))
        # The same for all batches, so that outputs do not depend on the batch; a power
        # of two, since the model is compiled for each number.
        most = int(self.written.max(initial=1))
        self.slots = 1 << (max(most, 1) - 1).bit_length()

    def __len__(self) -> int:
        return len(self.texts)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows and their mask positions, 0 in unused slots."""
        x: dict[str, Any] = self.texts.pack(rows, length)
        row, place = np.nonzero(x["token_ids"] == self.mask_token_id)
        positions = np.zeros((len(rows), self.slots), np.int32)
        positions[row, number_in_row(row)] = place
        return (x | {"mask_positions": positions},)


def tokenize_masks(tokenizer: AlbertTokenizer, texts: Sequence[str]) -> TokenRows:
    """Tokenize texts with masks; "[MASK]." is `[MASK]` and ".", as "word." is."""
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


def _without_space(tokenizer: AlbertTokenizer, text: str, ids: IntArray) -> IntArray:
    """Remove the space before a text, unless it begins with one."""
    if not len(ids) or text[0].isspace():
        return ids
    inner = tokenizer.vocabulary.inner_ids[ids[:1]]
    return np.concatenate([inner[inner >= 0], ids[1:]])


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
        check_truncation(truncate)
        if seed is not None and seed < 0:
            msg = (
                "`seed` must be None or a whole number of at least 0. Received: "
                f"seed={seed}"
            )
            raise ValueError(msg)
        lengths = sequence_length, max_sequence_length, length_buckets
        super().__init__(tokenizer, *lengths, pack_sequences, **kwargs)
        self.truncate = truncate
        self.mask_selection_rate = mask_selection_rate
        self.mask_selection_length = mask_selection_length
        self.mask_token_rate = mask_token_rate
        self.random_token_rate = random_token_rate
        self.max_ngram = max_ngram
        if (self._rates.mask_selection_length or 0) > self.max_length:
            raise ValueError(
                f"`mask_selection_length` must be at most {self.max_length}, the "
                "tokens in a row. Received: "
                f"mask_selection_length={mask_selection_length}"
            )
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
        self, mode: Mode, x: Texts, y: Any = None, sample_weight: Any = None
    ) -> tuple[Examples, bool]:
        """Tokenize texts; only in training masks differ each time."""
        # In prediction only the `[MASK]` of texts are masked.
        if y is not None:
            raise ValueError(
                "A masked language model makes its targets from the texts, and there "
                f"are others: {str(y)[:80]!r}. Leave them out; a pair of texts is one "
                "argument, `x=(first, second)`."
            )
        columns, batched = self.columns(x)
        if mode == "prediction":
            rows = tuple(tokenize_masks(self.tokenizer, column) for column in columns)
            mask_id = self.tokenizer.mask_token_id
            return WrittenMasks(self._texts(rows), mask_id), batched
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
