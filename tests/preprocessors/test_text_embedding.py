"""The text embedder's preprocessor."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_albert import AlbertTextEmbedderPreprocessor, AlbertTokenizer

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@pytest.fixture(scope="module")
def preprocessor(tiny_proto):
    return AlbertTextEmbedderPreprocessor(
        AlbertTokenizer(tiny_proto), max_sequence_length=24, length_buckets=(8, 16)
    )


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(pairs=st.lists(st.tuples(texts, texts), min_size=1, max_size=5))
def test_texts_of_pairs_are_packed_separately(preprocessor, pairs):
    packed = preprocessor(pairs)
    assert packed["token_ids"].shape[:2] == (len(pairs), 2)
    for column, rows in enumerate(zip(*pairs, strict=True)):
        alone = preprocessor(list(rows))
        width = alone["token_ids"].shape[1]
        for name, values in alone.items():
            np.testing.assert_array_equal(packed[name][:, column, :width], values)
            assert not packed[name][:, column, width:].any()
    assert not packed["segment_ids"].any()


def test_shapes_of_texts_and_pairs(preprocessor):
    assert preprocessor("the town")["token_ids"].shape == (8,)
    assert preprocessor(("the town", "a hill"))["token_ids"].shape == (2, 8)
    packed, y = preprocessor((["a", "b"], ["c", "d"]), np.array([0.5, 1.0]))
    assert packed["padding_mask"].shape == (2, 2, 8)
    assert y.tolist() == [0.5, 1.0]
    assert preprocessor(["the town " * 40])["token_ids"].shape == (1, 24)
    with pytest.raises(ValueError, match="A similarity compares two texts"):
        preprocessor(["a", "b"], [0.5, 1.0])
