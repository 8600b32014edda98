"""The starts of words, in many scripts."""

from types import SimpleNamespace

import numpy as np
import pytest

from keras_albert.text.masking import WordStarts


class Pieces:
    """A minimal tokenizer: ALBERT's special tokens and a list of pieces."""

    special_token_ids = [0, 1, 2, 3, 4]  # noqa: RUF012

    def __init__(self, pieces):
        self.pieces = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *pieces]
        texts = [piece.replace("▁", " ") for piece in self.pieces]
        begins = np.array([text.startswith(" ") for text in texts])
        self.vocabulary = SimpleNamespace(
            texts=texts, begins_word=begins, marks_words=False
        )


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
