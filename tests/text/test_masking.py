"""Whole-word masking: words, rates, probabilities and replacements."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text.masking import MaskingRates, WholeWordMasking, WordStarts
from keras_albert.text.tokenizer.word_piece import ROLES, is_word_piece


class Pieces:
    """A minimal vocabulary: ALBERT's special tokens and a list of pieces."""

    special_ids = dict(zip(ROLES, range(5), strict=True))  # noqa: RUF012
    marks_words = False

    def __init__(self, pieces):
        self.pieces = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *pieces]
        self.texts = [piece.replace("▁", " ") for piece in self.pieces]
        self.starts_word = np.array([text.startswith(" ") for text in self.texts])


def words_of(*pieces):
    """Join a row of pieces into words, without special tokens."""
    tokenizer = Pieces(sorted(set(pieces)))
    ids = np.array([[tokenizer.pieces.index(piece) for piece in pieces]], np.int32)
    starts = WordStarts(tokenizer)
    words = []
    for piece, start, inside in zip(
        pieces, starts(ids)[0], starts.in_words(ids)[0], strict=True
    ):
        if start:
            words.append(piece)
        elif inside:
            words[-1] += piece
    return words


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (["▁the", "▁qu", "ick", "▁fox", "es"], ["▁the", "▁quick", "▁foxes"]),
        (["▁20", "11", "▁19", "8", "4"], ["▁2011", "▁1984"]),
        (["▁a", "▁", "b", "c"], ["▁a", "▁bc"]),
        (["▁well", "-", "known", "."], ["▁well", "-", "known", "."]),
        (["▁don", "'", "t", "▁l", "’", "eau"], ["▁don't", "▁l’eau"]),  # noqa: RUF001
        (["▁", "(", "a", ")"], ["▁(", "a", ")"]),
        (["▁5%", "of"], ["▁5%", "of"]),
        (["▁мо", "сква", "▁ان", "ت", "▁서", "울"], ["▁москва", "▁انت", "▁서울"]),
        (["▁東", "京", "都", "に"], ["▁東", "京", "都", "に"]),
        (["▁", "東京", "abc", "d"], ["▁東京", "abcd"]),
        (["▁abc", "東", "1", "2"], ["▁abc", "東", "12"]),
        (["▁สวัส", "ดี"], ["▁สวัส", "ดี"]),
        # A combining mark belongs to the preceding letter.
        (["▁ก", "ั", "น"], ["▁กั", "น"]),
        (["▁का", "ि"], ["▁काि"]),
        (["▁a", "🙂", "b"], ["▁a", "🙂", "b"]),
    ],
)
def test_words(pieces, words):
    assert words_of(*pieces) == words


def test_special_tokens_separate_words():
    pieces = ["[CLS]", "a", "b", "[SEP]", "c", "<unk>", "d", "[SEP]", "<pad>"]
    assert words_of(*pieces) == ["ab", "c", "d"]


def test_first_token_of_a_row_begins_a_word():
    tokenizer = Pieces(["a", "▁b"])
    ids = np.array([[5, 5, 6], [5, 6, 5]], np.int32)
    np.testing.assert_array_equal(WordStarts(tokenizer)(ids), [[1, 0, 1], [1, 1, 0]])


CLS, SEP, PAD, MASK = 2, 3, 0, 4


@pytest.fixture(scope="module")
def masking(tokenizer):
    return WholeWordMasking(tokenizer.vocabulary)


@pytest.fixture(scope="module")
def rows(tokenizer):
    """Return full rows of 128 random tokens, in words of one to three pieces."""
    pieces = [tokenizer.id_to_token(i) for i in range(tokenizer.vocabulary_size())]
    opening = [
        i for i, piece in enumerate(pieces) if piece[0] == "▁" and len(piece) > 2
    ]
    inner = [i for i, piece in enumerate(pieces) if piece.isalpha()]
    rng = np.random.default_rng(0)
    sizes = rng.choice([1, 2, 3], 300_000, p=[0.7, 0.2, 0.1])
    ids = rng.choice(inner, sizes.sum())
    ids[np.cumsum(sizes) - sizes] = rng.choice(opening, len(sizes))
    body = ids[: len(ids) // 126 * 126].reshape(-1, 126)
    return np.pad(
        np.pad(body, ((0, 0), (1, 0)), constant_values=CLS),
        ((0, 0), (0, 1)),
        constant_values=SEP,
    ).astype(np.int32)


@pytest.fixture(scope="module")
def masked(masking, rows):
    return masking(rows, np.random.default_rng(1))


def masked_words(masking, token_ids, masked):
    """Return which tokens begin words, and which tokens are masked."""
    hit = np.zeros(token_ids.shape, bool)
    row, slot = np.nonzero(masked.weights)
    hit[row, masked.positions[row, slot]] = True
    return masking.word_starts(token_ids), hit


def test_selection_rate_excludes_special_tokens(masked, rows):
    rate = masked.weights.sum() / (rows > MASK).sum()
    assert abs(rate - 0.15) < 0.001
    # In every row, not only on average: 15% of 126 tokens is 18.9, and a run of up to 9
    # that begins before them is left out.
    assert masked.weights.sum(axis=1).min() >= 11
    assert masked.weights.sum(axis=1).max() <= masked.positions.shape[1]


def test_80_10_10(masked, rows, tokenizer):
    row, slot = np.nonzero(masked.weights)
    now = masked.token_ids[row, masked.positions[row, slot]]
    before = masked.labels[row, slot]
    assert abs((now == MASK).mean() - 0.8) < 0.005
    # A random token may be equal to the original.
    again = 0.1 / tokenizer.vocabulary_size()
    assert abs((now == before).mean() - 0.1 - again) < 0.005
    others = now[(now != MASK) & (now != before)]
    assert abs(len(others) / len(now) - 0.1 + again) < 0.005
    # All tokens except the special ones are drawn.
    np.testing.assert_array_equal(
        np.unique(others), np.arange(5, tokenizer.vocabulary_size())
    )


def test_all_tokens_are_equally_likely(masking, masked, rows):
    _, hit = masked_words(masking, rows, masked)
    assert np.abs(hit[:, 1:-1].mean(axis=0) - 0.15).max() < 0.03
    assert not hit[:, [0, -1]].any()
    # Long words are masked as often as short ones.
    starts = masking.word_starts(rows)
    begins = np.flatnonzero(starts.reshape(-1))
    sizes = np.add.reduceat((rows > MASK).reshape(-1).astype(int), begins)
    chosen = hit.reshape(-1)[begins]
    for size in (1, 2, 3):
        assert abs(chosen[sizes == size].mean() - 0.15) < 0.008


def test_ngram_probabilities_are_proportional_to_1_over_n(tokenizer, rows):
    # Few selected words, so that runs are seldom adjacent, in long rows.
    masking = WholeWordMasking(
        tokenizer.vocabulary, MaskingRates(mask_selection_rate=0.02)
    )
    rows = rows[: len(rows) // 16 * 16, 1:-1].reshape(-1, 16 * 126)
    masked = masking(rows, np.random.default_rng(2))
    starts, hit = masked_words(masking, rows, masked)
    words = hit[starts]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], words, [0]])))
    lengths = edges[1::2] - edges[::2]
    shares = np.array([(lengths == n).mean() for n in (1, 2, 3)])
    np.testing.assert_allclose(shares, np.array([6, 3, 2]) / 11, atol=0.015)


texts = st.lists(st.lists(st.integers(1, 129), max_size=20), min_size=1, max_size=4)


@settings(deadline=None, max_examples=150)
@given(
    rows=texts,
    seed=st.integers(0, 10),
    rate=st.floats(0.01, 1.0),
    ngram=st.integers(1, 4),
    slots=st.none() | st.integers(1, 5),
    pairs=st.booleans(),
)
def test_invariants_of_any_rows(any_tokenizer, rows, seed, rate, ngram, slots, pairs):
    tokenizer = any_tokenizer
    rows = [[i for i in row if i < tokenizer.vocabulary_size()] for row in rows]
    rates = MaskingRates(
        mask_selection_rate=rate, max_ngram=ngram, mask_selection_length=slots
    )
    masking = WholeWordMasking(tokenizer.vocabulary, rates)
    packed = [
        [CLS, *row, SEP, *(row[::-1] if pairs else ()), *([SEP] if pairs else ())]
        for row in rows
    ]
    width = max(map(len, packed)) + 1
    token_ids = np.array([row + [PAD] * (width - len(row)) for row in packed], np.int32)
    masked = masking(token_ids, np.random.default_rng(seed))
    starts, hit = masked_words(masking, token_ids, masked)
    inside = masking.word_starts.in_words(token_ids)
    assert masked.positions.shape == (len(rows), rates.slots(width))
    # Positions are increasing and not special; other tokens are unchanged.
    for positions, weights in zip(masked.positions, masked.weights, strict=True):
        used = positions[weights > 0]
        assert (np.diff(used) > 0).all()
        assert (weights[: len(used)] == 1).all()
    assert not hit[~inside].any()
    np.testing.assert_array_equal(masked.token_ids[~hit], token_ids[~hit])
    assert not np.isin(masked.token_ids[hit], [PAD, 1, CLS, SEP]).any()
    # Words are masked completely or not at all.
    word = np.cumsum(starts.reshape(-1)) * inside.reshape(-1)
    for number in np.unique(word[word > 0]):
        assert len(set(hit.reshape(-1)[word == number].tolist())) == 1
    if is_word_piece(tokenizer.proto):
        pieces = np.array(tokenizer.get_vocabulary())[token_ids]
        goes_on = np.char.startswith(pieces[:, 1:], "##") & inside[:, :-1]
        np.testing.assert_array_equal(hit[:, 1:][goes_on], hit[:, :-1][goes_on])
    # If the words fit into the slots, at least one is masked.
    if slots is None:
        room = [rates.slots(length) for length in map(len, packed)]
        short = inside.any(axis=1) & (inside.sum(axis=1) <= room)
        assert hit[short].any(axis=1).all()


def test_rows_without_words(masking):
    masked = masking(np.array([[CLS, SEP, PAD]], np.int32), np.random.default_rng(0))
    assert not masked.weights.any()
    assert masked.token_ids.tolist() == [[CLS, SEP, PAD]]
    empty = masking(np.zeros((0, 8), np.int32), np.random.default_rng(0))
    assert empty.positions.shape == (0, 5)


@pytest.mark.parametrize(
    ("rates", "named"),
    [
        ({"mask_selection_rate": -0.1}, "mask_selection_rate"),
        ({"mask_selection_rate": 1.5}, "mask_selection_rate"),
        ({"mask_selection_rate": float("nan")}, "mask_selection_rate"),
        ({"mask_token_rate": 0.95}, "sum must be at most 1"),
        ({"random_token_rate": -0.1}, "random_token_rate"),
        ({"max_ngram": 0}, "max_ngram"),
        ({"mask_selection_length": 0}, "mask_selection_length"),
    ],
)
def test_invalid_rates_raise(rates, named):
    with pytest.raises(ValueError, match=named):
        MaskingRates(**rates)


def test_rates_that_sum_to_one_except_for_rounding():
    assert (
        MaskingRates(mask_token_rate=0.7 + 0.2, random_token_rate=0.1).slots(100) == 18
    )
