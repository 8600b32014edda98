"""Initial weights."""

import keras
import numpy as np

from keras_albert.layers.base_layer import albert_initializer
from tests.compiled import to_numpy


def test_initial_weights_are_a_truncated_normal():
    initializer = albert_initializer(seed=3)
    values = to_numpy(initializer((300, 200), "float32"))
    assert np.abs(values).max() <= 0.04
    assert abs(values.mean()) < 5e-4
    # A normal of deviation 1 has 0.8796 between -2 and 2.
    assert abs(values.std() / 0.02 - 0.8796) < 0.01
    config = keras.initializers.serialize(initializer)
    again = keras.initializers.deserialize(config)((300, 200), "float32")
    np.testing.assert_array_equal(to_numpy(again), values)
    other = to_numpy(albert_initializer(seed=4)((300, 200), "float32"))
    assert abs(np.corrcoef(other.ravel(), values.ravel())[0, 1]) < 0.03
    low = albert_initializer(seed=3)((2, 2), "float16")
    assert keras.backend.standardize_dtype(low.dtype) == "float16"
