import keras
import numpy as np
import pytest

from keras_albert.layers import TransformerBlock
from keras_albert.layers.base_layer import StepSeed
from tests.compiled import to_numpy
from tests.layers.layer_checks import check_layer

ARGUMENTS = {
    "num_heads": 2,
    "intermediate_dim": 16,
    "activation": "relu",
    "layer_norm_epsilon": 1e-9,
    "seed": 1,
}
X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")


def test_layer_checks():
    check_layer(TransformerBlock, ARGUMENTS, X, (2, 5, 8))


def test_activation_function_round_trips_in_config():
    layer = TransformerBlock(2, 16, activation=keras.activations.silu, seed=1)
    copy = TransformerBlock.from_config(layer.get_config())
    np.testing.assert_array_equal(to_numpy(copy(X)), to_numpy(layer(X)))


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_softmax_and_layer_norm_are_float32(policy):
    block = TransformerBlock(**ARGUMENTS, dtype=policy)
    # Their squares exceed the range of float16.
    large = X * 1000
    output, scores = block(large, return_attention_scores=True)
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    np.testing.assert_allclose(to_numpy(scores).sum(-1), 1, atol=1e-6)
    exact = TransformerBlock(**ARGUMENTS)
    np.testing.assert_allclose(
        to_numpy(keras.ops.cast(output, "float32")), to_numpy(exact(large)), atol=0.2
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": 3}, "width 8 is not a multiple of `num_heads=3"),
        ({"activation": "glue"}, "There is no activation 'glue'"),
        ({"dropout": 0.1}, "needs a `seed` to train"),
    ],
)
def test_bad_arguments(arguments, message):
    arguments = {"num_heads": 2, "intermediate_dim": 16} | arguments
    with pytest.raises(ValueError, match=message):
        TransformerBlock(**arguments)(X, training=True)


def test_seed_argument_determines_dropout():
    block = TransformerBlock(2, 16, dropout=0.5, attention_dropout=0.5, seed=1)
    seed = StepSeed.draw(keras.random.SeedGenerator(1))
    first, again, other = (
        to_numpy(block(X, seed=seed.at(number), training=True)) for number in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - other).max() > 1e-3
