"""Weights far from the initial ones, of which many are zeros, ones or nearly equal."""

import numpy as np


def random_weight(name, shape, rng):
    """Large enough that each weight leaves its mark."""
    value = rng.normal(size=shape, scale=0.25)
    if name.endswith(("gamma", "LayerNorm.weight", "layer_norm.weight")):
        value += 1.0
    return value.astype("float32")


def fill_weights(layer, seed=0):
    """Set the weights of a layer or a model to random ones, and return it."""
    rng = np.random.default_rng(seed)
    for weight in layer.weights:
        weight.assign(random_weight(weight.path, tuple(weight.shape), rng))
    return layer


def add_noise(layer, spread=0.3, seed=1):
    """Add random numbers to the weights of a layer or a model, and return it."""
    rng = np.random.default_rng(seed)
    layer.set_weights([w + rng.normal(0, spread, w.shape) for w in layer.get_weights()])
    return layer
