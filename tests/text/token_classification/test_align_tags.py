"""Tags of words from entities in characters."""

import numpy as np
import pytest

from keras_albert.text.tasks.token_classification import (
    SpanTags,
    join_words,
    split_words,
    word_tags,
)

TEXT = "Ada Lovelace, of London"


def entities(*spans, tags=(10, 11, 12, 13)):
    bounds = np.array(spans, np.int64).reshape(-1, 2)
    return SpanTags(bounds, np.array([tags] * len(spans), np.int32).reshape(-1, 4), 9)


@pytest.mark.parametrize(
    ("spans", "tags"),
    [
        ([], [9, 9, 9, 9, 9]),
        ([(0, 3)], [10, 9, 9, 9, 9]),
        ([(0, 12), (17, 23)], [11, 13, 9, 9, 10]),
        ([(0, 13)], [11, 12, 13, 9, 9]),
        # An entity includes words that it overlaps; whitespace belongs to no word.
        ([(1, 6), (13, 18)], [11, 13, 9, 11, 13]),
    ],
)
def test_tags_of_the_words_of_entities(spans, tags):
    assert word_tags(entities(*spans), split_words(TEXT), 0).tolist() == tags


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(17, 24)], r"Row 7: the entity from 17 to 24 \('London'\) ends outside"),
        ([(3, 4)], r"Row 7: the entity from 3 to 4 \(' '\) holds no word"),
        ([(0, 5), (6, 12)], r"Row 7: the entity from 6 to 12 .* shares a word"),
    ],
)
def test_invalid_entities_raise(spans, message):
    with pytest.raises(ValueError, match=message):
        word_tags(entities(*spans), split_words(TEXT), 7)


def test_missing_tag_raises():
    target = entities((0, 3), tags=(1, 1, -1, -1))
    assert word_tags(target, split_words(TEXT), 0)[0] == 1
    target = entities((0, 12), tags=(1, 1, -1, -1))
    with pytest.raises(ValueError, match="the model no tag for the others"):
        word_tags(target, split_words(TEXT), 0)


def test_targets_of_the_wrong_type_raise():
    with pytest.raises(
        ValueError, match="Row 3 is words, whose target is a tag for each"
    ):
        word_tags(entities(), join_words(["a"]), 3)
    with pytest.raises(
        ValueError, match="Row 3 is a raw text, whose target is its ent"
    ):
        word_tags(np.array([1, 2]), split_words("a b"), 3)
    with pytest.raises(ValueError, match="Row 3 has 2 words, but 1 tags"):
        word_tags(np.array([1]), join_words(["a", "b"]), 3)
