import keras
import numpy as np

from keras_albert.layers import TransformerBlock
from keras_albert.layers.run_layers import run_layer
from tests.compiled import to_numpy

X = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")


def dense(**arguments):
    layer = keras.layers.Dense(6, bias_initializer="normal", **arguments)
    layer.build(X.shape)
    return layer


def assert_same(layer, **kwargs):
    x = keras.ops.convert_to_tensor(X)
    found, expected = map(to_numpy, (run_layer(layer, x, **kwargs), layer(x, **kwargs)))
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_run_layer_equals_call():
    assert_same(dense())
    assert_same(dense(use_bias=False))
    assert_same(dense(activation="tanh"))
    assert tuple(run_layer(dense(), keras.ops.zeros((0, 5, 8))).shape) == (0, 5, 6)
    normalization = keras.layers.LayerNormalization(epsilon=1e-12)
    normalization.build(X.shape)
    assert_same(normalization)


def test_lora():
    layer = dense()
    without = to_numpy(run_layer(layer, keras.ops.convert_to_tensor(X)))
    layer.enable_lora(2)
    layer.lora_kernel_b.assign(np.ones(layer.lora_kernel_b.shape))
    assert np.abs(to_numpy(layer(X)) - without).max() > 1e-3
    assert_same(layer)


def test_quantized_layer():
    layer = dense()
    exact = to_numpy(layer(X))
    layer.quantize("int8")
    found = to_numpy(run_layer(layer, keras.ops.convert_to_tensor(X)))
    assert 0 < np.abs(found - exact).max() < 0.1


def test_block_with_attention_mask():
    block = TransformerBlock(2, 16, seed=1)
    block.build(X.shape)
    mask = np.array([1, 1, 1, 0, 0], bool)[None, None, None]
    assert_same(block, attention_mask=keras.ops.convert_to_tensor(mask))
