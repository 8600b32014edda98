"""Where words begin, in any script."""

import numpy as np
import pytest

from keras_albert.text.masked_lm.word_starts import WordStarts


class Pieces:
    """A tokenizer of nothing but pieces, ALBERT's special tokens first."""

    special_token_ids = [0, 1, 2, 3, 4]  # noqa: RUF012

    def __init__(self, pieces):
        self.pieces = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *pieces]

    def vocabulary_size(self):
        return len(self.pieces)

    def id_to_token(self, token_id):
        return self.pieces[token_id]


def words_of(*pieces):
    """Cut a row of pieces into words; special ones are left out."""
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
        # A mark belongs to the letter before it.
        (["▁ก", "ั", "น"], ["▁กั", "น"]),
        (["▁का", "ि"], ["▁काि"]),
        (["▁a", "🙂", "b"], ["▁a", "🙂", "b"]),
    ],
)
def test_words(pieces, words):
    assert words_of(*pieces) == words


def test_special_tokens_part_words():
    pieces = ["[CLS]", "a", "b", "[SEP]", "c", "<unk>", "d", "[SEP]", "<pad>"]
    assert words_of(*pieces) == ["ab", "c", "d"]


def test_each_row_begins_a_word():
    tokenizer = Pieces(["a", "▁b"])
    ids = np.array([[5, 5, 6], [5, 6, 5]], np.int32)
    np.testing.assert_array_equal(WordStarts(tokenizer)(ids), [[1, 0, 1], [1, 1, 0]])
