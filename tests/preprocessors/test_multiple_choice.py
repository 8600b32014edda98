"""The multiple-choice model's preprocessor."""

import numpy as np
import pytest

from keras_albert import AlbertMultipleChoicePreprocessor, AlbertTokenizer

CLS, SEP, PAD = 2, 3, 0


CONTEXT = "the town by the sea"


CHOICES = ["bread", "a hill", "rain"]


@pytest.fixture(scope="module")
def preprocessor(tiny_proto):
    return AlbertMultipleChoicePreprocessor(
        AlbertTokenizer(tiny_proto), max_sequence_length=64
    )


def texts_of(preprocessor, packed):
    """Return the two texts of each row."""
    rows = []
    for ids in packed["token_ids"].reshape(-1, packed["token_ids"].shape[-1]):
        ends = np.flatnonzero(ids == SEP)
        if not len(ends):
            rows.append(None)
            continue
        assert ids[0] == CLS
        parts = (ids[1 : ends[0]], ids[ends[0] + 1 : ends[1]])
        rows.append(tuple(preprocessor.tokenizer.detokenize(part) for part in parts))
    return rows


def test_choice_replaces_the_blank_or_follows_the_question(preprocessor):
    blank = preprocessor((CONTEXT, "we can  _  and _.", CHOICES))
    assert blank["token_ids"].shape[0] == 3
    assert texts_of(preprocessor, blank) == [
        (CONTEXT, f"we can {choice} and {choice}.") for choice in CHOICES
    ]
    follows = preprocessor((CONTEXT, "what is in it?", CHOICES))
    assert texts_of(preprocessor, follows) == [
        (CONTEXT, f"what is in it? {choice}") for choice in CHOICES
    ]


def test_question_is_the_first_text_without_a_context(preprocessor):
    packed = preprocessor((["what is _ it?"], [CHOICES]))
    expected = preprocessor.tokenizer.detokenize(
        preprocessor.tokenizer("what is _ it?")
    )
    assert texts_of(preprocessor, packed) == [(expected, text) for text in CHOICES]


def test_missing_choices_are_padding(preprocessor):
    x = ([CONTEXT, "rain"], ["who?", "what _?"], [CHOICES, CHOICES[:1]])
    packed, answers = preprocessor(x, ["C", 0])
    assert answers.tolist() == [2, 0]
    texts = texts_of(preprocessor, packed)
    assert texts[3:] == [("rain", "what bread?"), None, None]
    weighed = preprocessor(x, [2, 0], np.ones(2))
    assert len(weighed) == 3


def test_long_questions_keep_their_end_and_contexts_their_start(preprocessor):
    short = AlbertMultipleChoicePreprocessor(
        preprocessor.tokenizer, sequence_length=16, max_qa_length=6
    )
    packed = short(("the town " * 20, "rain " * 20, ["bread"]))
    ids = packed["token_ids"][0]
    assert packed["token_ids"].shape == (1, 16)
    assert packed["padding_mask"].all()
    assert (packed["segment_ids"] == 1).sum() == 7  # and `[SEP]`
    tail = preprocessor.tokenizer("rain " * 20 + "bread")[-6:]
    np.testing.assert_array_equal(ids[9:15], tail)
    head = preprocessor.tokenizer("the town " * 20)[:7]
    np.testing.assert_array_equal(ids[1:8], head)


def test_one_question_with_its_answer(preprocessor):
    packed, answer = preprocessor((CONTEXT, "who?", CHOICES), "B")
    assert packed["token_ids"].shape[0] == 3
    assert int(answer) == 1
    with pytest.raises(ValueError, match=r"Row 0 has the answer 3 \(D\), but its"):
        preprocessor((CONTEXT, "who?", CHOICES), "D")
