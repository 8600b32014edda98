import keras
import numpy as np
import pytest
from keras import ops

from keras_albert.layers import TransformerBlock
from keras_albert.layers.base_layer import StepSeed
from keras_albert.layers.block import attend, attend_fused
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


SHAPE = (3, 5, 2, 4)
# The last row is padding only.
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]], bool)[
    :, None, None
]


def heads(dtype="float32"):
    rng = np.random.default_rng(0)
    return [
        keras.ops.convert_to_tensor(rng.normal(size=SHAPE).astype("float32"), dtype)
        for _ in range(3)
    ]


def explicit(heads, mask):
    return attend(*heads, mask, lambda scores: scores)


@pytest.mark.parametrize("mask", [None, MASK, MASK & MASK.transpose(0, 1, 3, 2)])
def test_explicit_and_fused_attention_are_equal(mask):
    expected, scores = to_numpy(explicit(heads(), mask))
    mask = None if mask is None else keras.ops.convert_to_tensor(mask)
    found = to_numpy(attend_fused(*heads(), mask))
    assert found.shape == SHAPE
    some = slice(None) if mask is None else slice(2)
    np.testing.assert_allclose(found[some], expected[some], atol=1e-6)
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-6)


@pytest.mark.skipif(keras.config.backend() != "jax", reason="of JAX' kernel alone")
def test_kernel_of_gpus_takes_the_mask(monkeypatch):
    """Lower for a GPU that is not there; cuDNN would be asked for its version."""
    import jax
    from jax._src.cudnn import fused_attention_stablehlo as kernel

    monkeypatch.setattr(kernel, "check_cudnn_version", lambda: 91000)
    monkeypatch.setattr(kernel, "check_compute_capability", lambda version: True)

    def attention(query, key, value, mask, **_):
        arguments = {"mask": mask, "implementation": "cudnn"}
        return jax.nn.dot_product_attention(query, key, value, **arguments)

    monkeypatch.setattr(ops, "dot_product_attention", attention)

    def total(query, mask):
        return attend_fused(query, query, query, mask).astype("float32").sum()

    query = np.zeros((4, 128, 2, 64), "bfloat16")
    step = jax.jit(jax.grad(total)).trace(query, np.ones((4, 1, 1, 128), bool))
    program = step.lower(lowering_platforms=("cuda",)).as_text()
    assert "__cudnn$fmhaScaleBiasSoftmaxBackward" in program
