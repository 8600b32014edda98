import keras
import numpy as np

from keras_albert.layers.exit_heads import ExitHeads
from tests.compiled import to_numpy

X = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")


def test_one_head_equals_all_of_them():
    heads = ExitHeads(4, units=5, activation="sigmoid")
    heads.build(X.shape)
    assert len({row.tobytes() for row in to_numpy(heads.kernel.value)}) == 4
    heads.bias.assign(np.arange(20).reshape(4, 5))
    together = to_numpy(heads(X))
    for number in range(3):
        alone = to_numpy(heads(X[:, number], exit=number))
        np.testing.assert_allclose(alone, together[:, number], atol=1e-6)
        kernel, bias = (to_numpy(v.value)[number] for v in (heads.kernel, heads.bias))
        expected = 1 / (1 + np.exp(-(X[:, number] @ kernel + bias)))
        np.testing.assert_allclose(alone, expected, atol=1e-5)


def test_config():
    heads = ExitHeads(4, units=5, activation="sigmoid", dtype="float32")
    copy = ExitHeads.from_config(heads.get_config())
    assert copy.get_config() == heads.get_config()
    assert copy.activation is keras.activations.sigmoid
