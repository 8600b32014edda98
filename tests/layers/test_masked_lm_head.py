"""The masked LM head alone; its outputs are compared in the tests of the task."""

import keras
import numpy as np
import pytest

from keras_albert.layers import MaskedLMHead
from tests.compiled import to_numpy


def make_head(**kwargs):
    return MaskedLMHead(keras.layers.ReversibleEmbedding(30, 4), **kwargs)


def test_mask_positions_select_from_all_scores():
    head = make_head()
    encoded = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    scores = to_numpy(head(encoded))
    assert scores.shape == (2, 5, 30)
    picked = to_numpy(head(encoded, np.array([[4, 0, 0], [2, 1, 3]])))
    np.testing.assert_allclose(picked[0], scores[0, [4, 0, 0]], atol=1e-6)
    np.testing.assert_allclose(picked[1], scores[1, [2, 1, 3]], atol=1e-6)


def test_scores_use_the_token_embeddings():
    head = make_head()
    encoded = np.ones((1, 1, 8), "float32")
    head(encoded)
    before = to_numpy(head(encoded))
    head.output_bias.assign(np.arange(30))
    table = to_numpy(head.token_embedding.embeddings)
    np.testing.assert_allclose(to_numpy(head(encoded)), before + np.arange(30), 1e-5)
    head.token_embedding.embeddings.assign(-table)
    np.testing.assert_allclose(
        to_numpy(head(encoded)), np.arange(30) - before, rtol=1e-5, atol=1e-6
    )


def test_symbolic_shapes():
    head = make_head(dtype="mixed_bfloat16")
    encoded = keras.Input((None, 8), dtype="bfloat16")
    scores = head(encoded, keras.Input((7,), dtype="int32"))
    assert scores.shape == (None, 7, 30)
    assert scores.dtype == "float32"
    assert head(encoded).shape == (None, None, 30)
    assert to_numpy(head(np.ones((1, 2, 8), "float32"))).dtype == "float32"


@pytest.mark.parametrize("activation", ["gelu_approximate", "relu"])
def test_config_round_trip(activation):
    head = make_head(activation=activation, layer_norm_epsilon=1e-6, name="head")
    encoded = np.ones((1, 2, 8), "float32")
    expected = to_numpy(head(encoded))
    copy = MaskedLMHead.from_config(head.get_config())
    copy(encoded)
    copy.set_weights(head.get_weights())
    np.testing.assert_allclose(to_numpy(copy(encoded)), expected, atol=1e-6)
    assert copy.layer_norm.epsilon == 1e-6
