"""Rows of token ids: truncated, packed with special tokens, padded as batches."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from keras_albert.text.reading import plain_column
from keras_albert.text.tokenizer.vocabularies import Vocabulary
from keras_albert.types import Batch, FloatArray, Int64Array, IntArray, Truncation

# Number of batches that are sorted by length together during training: enough that
# the rows of a batch have nearly the same length, few enough for a good shuffle.
_BATCHES_A_POOL = 64


class TokenRows(NamedTuple):
    """A ragged batch of token ids, stored flat, so that NumPy packs it without a loop.

    Row `i` is `values[starts[i] : starts[i] + lengths[i]]`. `len()` returns the
    number of rows.

    Args:
        values: int32 array `(total,)`. The ids of all rows, concatenated.
        lengths: int64 array `(rows,)`. The number of ids of each row.

    Example:
        >>> rows = TokenRows.from_lists([[5, 6, 7], [], [8]])
        >>> rows.starts
        array([0, 3, 3])
        >>> rows.take([2, 0]).to_lists()
        [[8], [5, 6, 7]]
    """

    values: npt.NDArray[np.int32]
    lengths: npt.NDArray[np.int64]

    @classmethod
    def from_lists(cls, rows: Iterable[Sequence[int]]) -> "TokenRows":
        """Concatenate lists, or other sequences, of int.

        Example:
            >>> from keras_albert.text import TokenRows
            >>> TokenRows.from_lists([[5, 6], [7]]).to_lists()
            [[5, 6], [7]]
        """
        rows = list(rows)
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        total = int(lengths.sum())
        values = np.fromiter(chain.from_iterable(rows), np.int32, total)
        return cls(values, lengths)

    @classmethod
    def from_arrays(cls, rows: Sequence[npt.NDArray[np.int32]]) -> "TokenRows":
        """Concatenate int32 arrays, without a loop over their ids.

        Example:
            >>> import numpy as np
            >>> from keras_albert.text import TokenRows
            >>> rows = [np.array([5, 6], "int32"), np.array([7], "int32")]
            >>> TokenRows.from_arrays(rows).to_lists()
            [[5, 6], [7]]
        """
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        values = np.concatenate(rows) if rows else np.empty(0, np.int32)
        return cls(values.astype(np.int32, copy=False), lengths)

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where each row starts in `values`: int64 array `(rows,)`."""
        return np.cumsum(self.lengths) - self.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def to_lists(self) -> list[list[int]]:
        """Return the rows as lists of `int`.

        Example:
            >>> from keras_albert.text import TokenRows
            >>> TokenRows.from_lists([[5, 6], [7]]).to_lists()
            [[5, 6], [7]]
        """
        values, lengths = self.values.tolist(), self.lengths.tolist()
        ends = np.cumsum(self.lengths).tolist()
        return [values[end - n : end] for end, n in zip(ends, lengths, strict=True)]

    def take(self, indices: npt.ArrayLike) -> "TokenRows":
        """Return some of the rows, in any order, with repetitions.

        Args:
            indices: Integers `(picked,)`; negative indices count from the end.

        Returns:
            The rows at `indices`.

        Raises:
            IndexError: If an index is out of range.

        Example:
            >>> from keras_albert.text import TokenRows
            >>> TokenRows.from_lists([[5, 6], [7]]).take([1]).to_lists()
            [[7]]
        """
        picked = np.asarray(indices, np.int64).reshape(-1)
        lengths = self.lengths[picked]
        return TokenRows(
            self.values[ragged_range(self.starts[picked], lengths)], lengths
        )


def ragged_range(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """Return `length` consecutive numbers from `start` on for each row, joined."""
    # Number n of the result is `n + shift` of its row.
    shift = starts - (np.cumsum(lengths) - lengths)
    return np.arange(lengths.sum()) + np.repeat(shift, lengths)


def truncated_lengths(
    lengths: tuple[Int64Array, ...], budget: int, truncate: Truncation
) -> tuple[Int64Array, ...]:
    """Return how many tokens of each text are kept, as in KerasHub, in closed form."""
    # "round_robin" assigns the budget, without special tokens, one by one, the first
    # text first; "waterfall" fills it with the first text, then the second.
    if len(lengths) == 1:
        return (np.minimum(lengths[0], budget),)
    first, second = lengths
    if truncate == "waterfall":
        first = np.minimum(first, budget)
    else:
        share = np.maximum((budget + 1) // 2, budget - second)
        first = np.minimum(first, share)
    return first, np.minimum(second, budget - first)


def distinct(texts: Iterable[str]) -> tuple[list[str], Int64Array]:
    """Return the distinct texts, and the index of each text among them."""
    numbers: dict[str, int] = {}
    indices = [numbers.setdefault(text, len(numbers)) for text in texts]
    return list(numbers), np.array(indices, np.int64)


def to_id_rows(inputs: Any, vocabulary_size: int) -> tuple[list[list[int]], bool]:
    """Read ids of one text or many; return whether there was a batch axis."""
    if isinstance(inputs, TokenRows):
        rows, batched = inputs.to_lists(), True
    else:
        values = _to_python(inputs)
        batched = isinstance(values, list) and any(isinstance(v, list) for v in values)
        rows = values if batched else [values if isinstance(values, list) else [values]]
    for index, row in enumerate(rows):
        # An id among lists is not a row; the message shows it.
        for token_id in row if isinstance(row, list) else [[row]]:
            if not isinstance(token_id, int) or not 0 <= token_id < vocabulary_size:
                raise ValueError(
                    f"row {index} of the ids contains {token_id!r}; ids of this "
                    f"vocabulary are whole numbers from 0 to {vocabulary_size - 1}, in "
                    "one list or a list of lists. Take a model's ids with argmax, and "
                    "leave out labels such as -100."
                )
    return rows, batched


def _to_python(inputs: Any) -> Any:
    """Convert arrays and tensors, also inside lists, to lists and `int`."""
    if isinstance(inputs, list | tuple):
        return [_to_python(item) for item in inputs]
    if hasattr(inputs, "to_list"):  # a ragged TensorFlow tensor
        return inputs.to_list()
    if hasattr(inputs, "tolist"):  # NumPy, JAX, PyTorch
        return inputs.tolist()
    if hasattr(inputs, "numpy"):  # TensorFlow, a Keras variable
        return inputs.numpy().tolist()
    return inputs


class Examples(Protocol):
    """Tokenized input, from which rows are packed into batches."""

    lengths: Int64Array  # Tokens in each row, `(rows,)`.

    def __len__(self) -> int:
        """Return the number of rows."""

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack rows, padded to `length`, with targets and weights if there are."""


class LabelledTexts:
    """Texts, such as `EncodedTexts`, with optional targets and sample weights."""

    def __init__(self, texts: Any, y: Any = None, sample_weight: Any = None) -> None:
        y, sample_weight = (
            None if x is None else np.atleast_1d(x) for x in (y, sample_weight)
        )
        check_counts(len(texts), y, sample_weight)
        self.texts = texts
        self.lengths = texts.lengths
        self.text_lengths = lengths_by_text(texts)
        self.y = y
        self.sample_weight = sample_weight

    def __len__(self) -> int:
        return len(self.texts)

    def pack(self, rows: Int64Array, length: int) -> Batch:
        """Pack some rows; see `Examples`."""
        x, y, weights = self.texts.pack(rows, length), self.y, self.sample_weight
        if y is None:
            return (x,)
        return (x, y[rows]) if weights is None else (x, y[rows], weights[rows])


def lengths_by_text(examples: Any) -> Int64Array:
    """Return the tokens of each text, `(rows, texts)`, 0 for a missing text."""
    return getattr(examples, "text_lengths", examples.lengths[:, None])


def pack_all(
    examples: Examples, padded_length: Any, batched: bool
) -> tuple[Any, Any, Any]:
    """Pack all rows as a batch, or the only one as an example; `None` is missing."""
    longest = int(examples.lengths.max(initial=1))
    batch: Any = examples.pack(np.arange(len(examples)), padded_length(longest))
    if not batched:
        batch = _first_row(batch)
    x, y, sample_weight = (*batch, None, None)[:3]
    return x, y, sample_weight


def _first_row(batch: Any) -> Any:
    if isinstance(batch, tuple):
        return tuple(map(_first_row, batch))
    if isinstance(batch, dict):
        return {name: _first_row(part) for name, part in batch.items()}
    return batch[0]


def read_weights(sample_weight: Any, axes: int = 1) -> Any:
    """Read weights of examples, or a dict of them: finite and not negative."""
    if isinstance(sample_weight, Mapping):
        return {name: read_weights(part, axes) for name, part in sample_weight.items()}
    weights = np.asarray(plain_column(sample_weight))
    is_numeric = weights.dtype.kind in "biuf"
    weights = weights.astype(np.float32) if is_numeric else weights
    if axes == 1 and weights.ndim == 2 and weights.shape[1] == 1:
        weights = weights[:, 0]
    if not is_numeric or not 1 <= weights.ndim <= axes:
        raise ValueError(
            "`sample_weight` must have a number for each example. Received an array of "
            f"shape {weights.shape} and dtype {weights.dtype}."
        )
    # False for NaN.
    valid = (weights >= 0) & (weights < np.inf)
    is_valid = np.asarray(valid.all(axis=tuple(range(1, weights.ndim))))
    if not is_valid.all():
        row = int(np.argmin(is_valid))
        raise ValueError(
            f"Row {row} has the sample weight {weights[row]}. Pass finite numbers that "
            "are not negative."
        )
    return weights


def weights_by_target(targets: Any, weights: Any) -> Any:
    """Copy one array of weights to each of several targets, with as many axes."""
    # Keras on TensorFlow would fail, or multiply each loss by each weight.
    if (
        weights is None
        or isinstance(weights, Mapping)
        or not isinstance(targets, Mapping)
    ):
        return weights
    return {
        name: weights.reshape(weights.shape + (1,) * (target.ndim - weights.ndim))
        for name, target in targets.items()
    }


def check_counts(count: int, targets: Any, weights: Any) -> None:
    """Check that there are as many targets and weights as examples."""
    for name, values in (("targets", targets), ("sample weights", weights)):
        parts = values.values() if isinstance(values, Mapping) else (values,)
        for part in parts:
            if part is not None and len(part) != count:
                raise ValueError(
                    f"There are {count} examples, but {len(part)} {name}. Each example "
                    "needs one."
                )


class SpecialIds(NamedTuple):
    """The ids that packing adds: `[CLS]` first, `[SEP]` after each text."""

    cls: int
    sep: int
    pad: int

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "SpecialIds":
        """Return the ids of a vocabulary."""
        ids = vocabulary.special_ids
        return cls(ids["cls_token"], ids["sep_token"], ids["pad_token"])


class EncodedTexts:
    """One or two columns of tokenized and truncated texts, packed batch by batch."""

    def __init__(
        self,
        columns: tuple[TokenRows, ...],
        special: SpecialIds,
        max_length: int,
        truncate: Truncation = "round_robin",
    ) -> None:
        self.columns = columns
        self.special = special
        budget = max_length - self.num_specials
        lengths = tuple(column.lengths for column in columns)
        self._kept = truncated_lengths(lengths, budget, truncate)
        self._starts = tuple(column.starts for column in columns)
        self.lengths: Int64Array = np.sum(self._kept, axis=0) + self.num_specials

    @property
    def num_specials(self) -> int:
        """The number of special tokens in a row."""
        return len(self.columns) + 1

    def __len__(self) -> int:
        return len(self.columns[0])

    def pack(self, indices: Int64Array, length: int) -> dict[str, IntArray]:
        """Pack rows into int32 arrays `(batch, length)`; see `Examples`."""
        position = np.arange(length)
        rows = np.arange(len(indices))
        special = self.special
        token_ids = np.full((len(indices), length), special.pad, np.int32)
        segment_ids = np.zeros((len(indices), length), np.int32)
        token_ids[:, 0] = special.cls
        start = np.ones(len(indices), np.int64)
        for segment, column in enumerate(self.columns):
            kept = self._kept[segment][indices]
            end = start + kept
            inside = (position >= start[:, None]) & (position < end[:, None])
            # Row by row, from left to right: the order of the ids in `column`.
            source = ragged_range(self._starts[segment][indices], kept)
            token_ids[inside] = column.values[source]
            token_ids[rows, end] = special.sep
            if segment:
                segment_ids[inside] = segment
                segment_ids[rows, end] = segment
            start = end + 1
        mask = (position < start[:, None]).astype(np.int32)
        ids = {"token_ids": token_ids, "segment_ids": segment_ids}
        return {**ids, "padding_mask": mask}


class SeparateTexts:
    """Examples of one or several texts, packed as separate rows."""

    def __init__(self, columns: tuple[EncodedTexts, ...]) -> None:
        self.columns = columns
        # Arrays with an entry for each example, which a task adds.
        self.extra: dict[str, FloatArray] = {}
        self.text_lengths: Int64Array = np.stack([c.lengths for c in columns], axis=1)
        self.lengths: Int64Array = self.text_lengths.max(axis=1)

    def __len__(self) -> int:
        return len(self.columns[0])

    def pack(self, indices: Int64Array, length: int) -> dict[str, Any]:
        """Pack examples; several texts are `(batch, texts, length)`."""
        packed = [column.pack(indices, length) for column in self.columns]
        if len(packed) == 1:
            return packed[0]
        stacked: dict[str, Any] = {
            name: np.stack([texts[name] for texts in packed], axis=1)
            for name in packed[0]
        }
        return stacked | {name: array[indices] for name, array in self.extra.items()}


def plan_batches(
    lengths: Int64Array, batch_size: int, generator: np.random.Generator | None = None
) -> list[Int64Array]:
    """Group examples of similar length into batches; the last may be smaller."""
    # Without a generator the longest are first, to allocate the memory of the whole
    # run. With one, examples are sorted in pools of 64 batches, which are shuffled.

    def cut(order: Int64Array, size: int) -> list[Int64Array]:
        return [order[i : i + size] for i in range(0, len(order), size)]

    if generator is None:
        return cut(np.argsort(-lengths, kind="stable"), batch_size)
    shuffled = generator.permutation(len(lengths))
    batches: list[Int64Array] = []
    for pool in cut(shuffled, _BATCHES_A_POOL * batch_size):
        in_order = pool[np.argsort(-lengths[pool], kind="stable")]
        batches += cut(in_order, batch_size)
    return [batches[i] for i in generator.permutation(len(batches))]


# Batches by which the shape of rows is chosen, the share of places that it leaves for
# others, and how many times as long as the longest text a row may be.
SAMPLE = 128


_LEFT = 0.02


_WIDEST = 4


# How often a batch is tried before it gets more rows.
_ATTEMPTS = 32


# Pairs of batches swap texts this often at most, or until no batch has more tokens than
# the mean by this share; of a batch, this many texts are tried.
_ROUNDS = 32


_UNEVEN = 0.005


_TRIED = 32


# The work of the products with weights, for each unit of the encoder's width, in that
# of attending to one token.
_PER_WEIGHT = 6


def plan_packed_batches(
    sizes: Int64Array, batch_size: int, generator: np.random.Generator | None = None
) -> list[Int64Array]:
    """Group examples into random batches with nearly the same number of tokens."""
    # Batches swap examples, the one with most tokens with the one with fewest and so
    # on. Only the last batch may be smaller than `batch_size`.
    if generator is None:
        generator = np.random.default_rng(0)
    order = generator.permutation(len(sizes))
    full = len(sizes) // batch_size
    rest, order = np.split(order, [len(sizes) - full * batch_size])
    # A batch has one of each group of similar size.
    groups = order[np.argsort(-sizes[order], kind="stable")].reshape(batch_size, full)
    batches = np.ascontiguousarray(generator.permuted(groups, axis=1).T)
    pairs = full // 2
    for _ in range(_ROUNDS):
        totals = sizes[batches].sum(axis=1)
        if totals.max(initial=0) <= totals.sum() / max(1, full) * (1 + _UNEVEN):
            break
        by_total = np.argsort(totals, kind="stable")
        few, many = by_total[:pairs], by_total[::-1][:pairs]
        gap = (totals[many] - totals[few])[:, None, None]
        # Texts that differ by half of the gap close it.
        given, taken = sizes[batches[many, :_TRIED]], sizes[batches[few]]
        left = np.abs(gap - 2 * (given[:, :, None] - taken[:, None, :]))
        best = left.reshape(pairs, -1).argmin(axis=1)
        closes = left.reshape(pairs, -1)[np.arange(pairs), best] < gap[:, 0, 0]
        if not closes.any():
            break
        few, many, best = few[closes], many[closes], best[closes]
        of_many, of_few = np.divmod(best, batch_size)
        given, taken = batches[many, of_many], batches[few, of_few]
        batches[many, of_many], batches[few, of_few] = taken, given
        # Others are tried in the next round.
        batches = np.roll(batches, _TRIED, axis=1)
    return [*batches, rest] if len(rest) else list(batches)


def place_texts(
    lengths: Int64Array, width: int, rows: int, attempts: int = 1
) -> tuple[Int64Array, Int64Array] | None:
    """Place texts of batches in rows, the longest first; `None` if one does not fit."""
    row, start = np.zeros_like(lengths), np.zeros_like(lengths)
    left = np.arange(len(lengths))
    generator = np.random.default_rng(0)
    for attempt in range(attempts):
        tried = lengths[left]
        about = tried * generator.uniform(1, 1.5, tried.shape) if attempt else tried
        order = np.argsort(-about, axis=1, kind="stable")
        *places, fits = _place_in_order(tried, order, width, rows)
        row[left[fits]], start[left[fits]] = (place[fits] for place in places)
        left = left[~fits]
        if not len(left):
            return row, start
    return None


def _place_in_order(
    lengths: Int64Array, order: Int64Array, width: int, rows: int
) -> tuple[Int64Array, Int64Array, npt.NDArray[np.bool_]]:
    """Return rows and first tokens of texts, and which batches fit."""
    batches = np.arange(len(lengths))
    fits = np.ones(len(lengths), bool)
    free = np.full((len(lengths), rows), width, np.int64)
    row, start = np.empty_like(lengths), np.empty_like(lengths)
    for text in order.T:
        length = lengths[batches, text]
        left = free - length[:, None]
        best = np.where(left < 0, width + 1, left).argmin(axis=1)
        fits &= left[batches, best] >= 0
        row[batches, text] = best
        start[batches, text] = width - free[batches, best]
        free[batches, best] -= length
    return row, start, fits


class PackedShape:
    """The shape of rows that texts share; rows are added if texts do not fit."""

    def __init__(self, hidden_dim: int) -> None:
        self.hidden_dim = hidden_dim
        self.width = 0
        # By the number of texts in a batch.
        self.rows: dict[int, int] = {}

    def choose(self, lengths: Int64Array, longest: int) -> None:
        """Choose the shape by `lengths` `(batches, texts)` of some batches."""
        self.width = self._best_width(lengths[:SAMPLE], longest)
        self.rows = {lengths.shape[1]: _fitting_rows(lengths, self.width)}

    def place(self, lengths: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Place the texts of batches; see `place_texts`."""
        longest = int(lengths.max(initial=1))
        if self.width < longest:
            self.choose(lengths, longest)
        texts = lengths.shape[1]
        rows = self.rows.get(texts) or _fitting_rows(lengths, self.width)
        while (places := place_texts(lengths, self.width, rows, _ATTEMPTS)) is None:
            rows += 1
        self.rows[texts] = rows
        return places

    def _best_width(self, lengths: Int64Array, longest: int) -> int:
        """Return the width for which the rows of a batch need the least work."""
        step = max(8, longest // 64 * 8)

        def work(width: int) -> int:
            rows = _fitting_rows(lengths, width)
            return rows * width * (_PER_WEIGHT * self.hidden_dim + width)

        first = -(-longest // 8) * 8
        return min(range(first, _WIDEST * first + 1, step), key=work)


def _fitting_rows(lengths: Int64Array, width: int) -> int:
    """Return the number of rows that the texts of each of some batches fit in."""
    most = float(lengths.sum(axis=1).max(initial=1))
    # Each text fits in its own row.
    fewest = math.ceil(most * (1 + _LEFT) / width)
    rows = max(1, min(fewest, int(lengths.shape[1])))
    while place_texts(lengths, width, rows) is None:
        rows += 1
    return rows


def packed_inputs(
    row: Int64Array, start: Int64Array, mask: IntArray, width: int, rows: int
) -> tuple[IntArray, IntArray]:
    """Return `row_tokens` and `token_places` of one batch, see `PackedRows`."""
    is_token = mask > 0
    places = (row * width + start)[:, None] + np.arange(mask.shape[1])
    tokens = np.full(rows * width, -1, np.int32)
    tokens[places[is_token]] = np.flatnonzero(is_token)
    return tokens.reshape(rows, width), np.where(is_token, places, 0).astype(np.int32)
