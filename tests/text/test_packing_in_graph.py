"""Packing inside a TensorFlow graph equals packing in Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keras_albert.text.batching import bucket_length
from keras_albert.text.packing import EncodedTexts, SpecialIds, pack_in_graph
from keras_albert.text.tokenizer.token_rows import TokenRows

tf = pytest.importorskip("tensorflow")
pytest.importorskip("tensorflow_text")

SPECIAL = SpecialIds(cls=2, sep=3, pad=0)
MAX_LENGTH = 12
BUCKETS = (4, 8, MAX_LENGTH)

ids = st.lists(st.integers(5, 99), max_size=16)
batches = st.lists(st.tuples(ids), max_size=5) | st.lists(
    st.tuples(ids, ids), min_size=1, max_size=5
)
ragged = tf.RaggedTensorSpec((None, None), tf.int32)


def make_packer(columns, truncate, pad_to):
    @tf.function(input_signature=[(ragged,) * columns])
    def pack(segments):
        return pack_in_graph(segments, SPECIAL, MAX_LENGTH, truncate, pad_to)

    return pack


# Traced once each.
PACKERS = {
    (columns, truncate, pad_to): make_packer(columns, truncate, pad_to)
    for columns in (1, 2)
    for truncate in ("round_robin", "waterfall")
    for pad_to in (None, MAX_LENGTH, BUCKETS)
}


@pytest.mark.parametrize("pad_to", [None, MAX_LENGTH, BUCKETS])
@settings(max_examples=25, deadline=None)
@given(rows=batches, truncate=st.sampled_from(["round_robin", "waterfall"]))
def test_graph_packs_like_python(rows, truncate, pad_to):
    columns = len(rows[0]) if rows else 1
    lists = [[row[column] for row in rows] for column in range(columns)]
    segments = tuple(tf.ragged.constant(c, tf.int32, ragged_rank=1) for c in lists)
    packed = PACKERS[columns, truncate, pad_to](segments)

    encoded = EncodedTexts(
        tuple(map(TokenRows.from_lists, lists)), SPECIAL, MAX_LENGTH, truncate
    )
    longest = int(encoded.lengths.max(initial=1))
    width = longest if pad_to is None else pad_to
    if isinstance(pad_to, tuple):
        width = bucket_length(longest, pad_to)
    expected = encoded.pack(np.arange(len(rows)), width)
    assert sorted(packed) == sorted(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(packed[name].numpy(), array)
        assert packed[name].dtype == tf.int32


def test_graph_has_static_length():
    packer = PACKERS[2, "waterfall", MAX_LENGTH].get_concrete_function()
    shapes = {tuple(shape) for shape in packer.output_shapes.values()}
    assert shapes == {(None, MAX_LENGTH)}
