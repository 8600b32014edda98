"""Tokenization of texts with `[MASK]`."""

import pytest

from keras_albert import AlbertTokenizer
from keras_albert.text.tasks.masked_lm import tokenize_masks


@pytest.fixture(scope="module")
def tokenizer(tiny_proto):
    return AlbertTokenizer(tiny_proto)


def pieces_of(tokenizer, text):
    (ids,) = tokenize_masks(tokenizer, [text]).to_lists()
    return [tokenizer.id_to_token(token_id) for token_id in ids]


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("the [MASK] in the town", "the", " in the town"),
        ("[MASK] the town", "", " the town"),
        ("the town [MASK]", "the town", ""),
        ("the town[MASK]", "the town", ""),
        ("[MASK]", "", ""),
        ("the\t[MASK]\nin", "the", "in"),
    ],
)
def test_text_around_a_mask_is_tokenized_as_usual(tokenizer, text, before, after):
    expected = [
        tokenizer.id_to_token(int(i))
        for part in (before, None, after)
        for i in ([4] if part is None else tokenizer(part))
    ]
    assert pieces_of(tokenizer, text) == expected


def test_text_after_a_mask_without_a_space_continues_its_word(tokenizer):
    assert pieces_of(tokenizer, "the [MASK].") == ["▁the", "[MASK]", "."]
    assert pieces_of(tokenizer, "[MASK], the")[:2] == ["[MASK]", ","]
    assert pieces_of(tokenizer, "[MASK][MASK]") == ["[MASK]", "[MASK]"]
    # The vocabulary contains "▁the" and the letters, but not "the".
    assert pieces_of(tokenizer, "[MASK]the")[1].startswith(("▁", "t"))


def test_texts_without_masks_are_tokenized_as_usual(tokenizer):
    texts = ["the town", "", "mask [mask] [CLS]"]
    assert tokenize_masks(tokenizer, texts).to_lists() == tokenizer(texts)
    assert tokenize_masks(tokenizer, []).to_lists() == []


def test_batch_equals_single_texts(tokenizer):
    texts = ["a [MASK]", "", "no mask", "[MASK] b [MASK]"]
    together = tokenize_masks(tokenizer, texts).to_lists()
    alone = [tokenize_masks(tokenizer, [text]).to_lists()[0] for text in texts]
    assert together == alone
