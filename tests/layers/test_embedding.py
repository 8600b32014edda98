import keras
import numpy as np
import pytest

from keras_albert.layers import FactorizedEmbedding
from tests.compiled import to_numpy
from tests.layers.layer_checks import check_layer

ARGUMENTS = {
    "vocabulary_size": 30,
    "embedding_dim": 4,
    "hidden_dim": 8,
    "max_sequence_length": 10,
    "num_segments": 3,
    "layer_norm_epsilon": 1e-9,
    "seed": 1,
}
IDS = np.array([[2, 7, 9, 3, 0], [2, 5, 3, 0, 0]], "int32")


def test_layer_checks():
    check_layer(FactorizedEmbedding, ARGUMENTS, IDS, (2, 5, 8))


def test_output_is_the_projected_norm_of_the_sum():
    layer = FactorizedEmbedding(**ARGUMENTS)
    segment_ids = np.array([[0, 0, 1, 1, 2], [0, 1, 1, 0, 0]])
    output = to_numpy(layer(IDS, segment_ids=segment_ids))
    tokens, positions, segments, gamma, beta, kernel, bias = layer.get_weights()
    x = tokens[IDS] + positions[:5] + segments[segment_ids]
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt(x.var(-1, keepdims=True) + 1e-9) * gamma + beta
    np.testing.assert_allclose(output, x @ kernel + bias, atol=1e-5)


def test_segment_ids_default_to_zero():
    layer = FactorizedEmbedding(**ARGUMENTS)
    expected = to_numpy(layer(IDS, segment_ids=np.zeros_like(IDS)))
    np.testing.assert_array_equal(to_numpy(layer(IDS)), expected)


@pytest.mark.parametrize(
    ("hidden_dim", "use_projection", "projects"),
    [(8, None, True), (4, None, False), (4, True, True), (4, False, False)],
)
def test_projection_argument(hidden_dim, use_projection, projects):
    arguments = ARGUMENTS | {"hidden_dim": hidden_dim, "use_projection": use_projection}
    layer = FactorizedEmbedding(**arguments)
    assert layer(IDS).shape[-1] == hidden_dim
    assert (layer.projection is not None) == projects
    assert len(layer.weights) == (7 if projects else 5)


def test_different_widths_without_projection_raise():
    with pytest.raises(ValueError, match="embedding_dim=4, hidden_dim=8"):
        FactorizedEmbedding(**ARGUMENTS, use_projection=False)


def test_too_long_sequence_raises():
    layer = FactorizedEmbedding(**ARGUMENTS)
    message = r"11 tokens per row.*only 10 position embeddings"
    for ids in (np.zeros((1, 11), "int32"), keras.Input((11,), dtype="int32")):
        with pytest.raises(ValueError, match=message):
            layer(ids)


def test_seed_determines_weights_and_dropout():
    def run(seed, training=True):
        layer = FactorizedEmbedding(**(ARGUMENTS | {"seed": seed}), dropout=0.5)
        return to_numpy(layer(IDS, training=training))

    np.testing.assert_array_equal(run(1), run(1))
    assert np.abs(run(1) - run(2)).max() > 1e-3
    assert np.abs(run(1) - run(1, training=False)).max() > 1e-3


def test_scores_are_computed_in_the_compute_dtype():
    layer = FactorizedEmbedding(**ARGUMENTS, dtype="mixed_bfloat16")
    layer(IDS)
    scores = layer.token_embedding(np.ones((1, 4), "float32"), reverse=True)
    assert keras.backend.standardize_dtype(scores.dtype) == "bfloat16"
