import numpy as np
import pytest

from keras_albert import AlbertTokenizer
from keras_albert.compression.text_spans import (
    SpanWorkers,
    TextSpans,
    span,
    split_texts,
)
from tests.one_backend import on_one_backend

pytestmark = on_one_backend

TEXT = "the quick fox. the brown fox jumped! is the earth round? it is. " * 4


@pytest.fixture(scope="module")
def spans(tiny_proto):
    how = ([AlbertTokenizer(tiny_proto)], 4, 24, True, 0)
    return TextSpans([TEXT, "", "the earth is round"], *how).measured()


@pytest.mark.parametrize("length", [5, 16, 40, 200])
def test_a_passage_begins_with_a_sentence_and_ends_with_a_word(length):
    words = set(TEXT.split())
    for seed in range(30):
        found = span(TEXT, length, np.random.default_rng(seed))
        assert 0 < len(found) <= length
        at = TEXT.index(found)
        assert at == 0 or TEXT[at - 2] in ".!?"
        if length >= 16:
            assert set(found.split()) <= words


def test_a_text_without_spaces_or_sentences_is_cut_anywhere():
    text = "好" * 50
    assert span(text, 20, np.random.default_rng(0)) == "好" * 20
    text = "今天下雨。我们在家。" * 5
    assert span(text, 12, np.random.default_rng(0)) == "我们在家。今天下雨。"
    words = "one two three four five"
    found = span(words, 9, np.random.default_rng(3))
    assert found in words
    assert set(found.split()) <= set(words.split())


def test_batches_depend_on_their_number_alone(spans):
    assert spans.lengths == [16, 24]
    first, again = spans.read(5), spans.read(5)
    assert first.texts == again.texts
    np.testing.assert_array_equal(
        first.inputs[0]["token_ids"], again.inputs[0]["token_ids"]
    )
    assert spans.read(6).texts != first.texts
    rows, length = first.inputs[0]["token_ids"].shape
    assert (rows, length) in ((6, 16), (4, 24))
    assert spans.held_out(3, 100).inputs[0]["token_ids"].shape == (3, 24)


def test_other_processes_draw_the_same_batches(spans):
    workers = SpanWorkers(spans, 2)
    try:
        for number in (0, 1, 7):
            drawn, expected = workers.read(number), spans.read(number)
            assert drawn.texts == expected.texts
            np.testing.assert_array_equal(
                drawn.masked.token_ids, expected.masked.token_ids
            )
    finally:
        workers.close()


def test_words_of_some_rows_are_masked(spans):
    masked, x = spans.read(1).masked, spans.read(1).inputs[0]
    mask_id = spans.tokenizers[0].mask_token_id
    used = masked.weights.sum(axis=1) > 0
    assert used.any()
    for row in range(len(used)):
        assert used[row] or mask_id not in x["token_ids"][row]
    chosen = np.take_along_axis(x["token_ids"], masked.positions, axis=1)
    kept = masked.weights > 0
    assert ((chosen == mask_id) | (chosen == masked.labels))[kept].all()


def test_a_tenth_of_few_texts_is_held_out():
    texts = [str(number) for number in range(30)]
    rest, held_out = split_texts(texts, seed=0)
    assert (len(rest), len(held_out)) == (27, 3)
    assert sorted([*rest, *held_out], key=int) == texts
