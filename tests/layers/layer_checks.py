"""Checks for all layers."""

import json

import keras
import numpy as np

from tests.compiled import to_numpy

_INEXACT = {"mixed_bfloat16": 0.15, "mixed_float16": 0.02}


def check_layer(cls, arguments, x, output_shape):
    """Build, describe, save, reload, train and run in low precision."""
    layer = cls(**arguments, dtype="float32")
    expected = to_numpy(layer(x))
    assert expected.shape == output_shape
    assert expected.dtype == "float32"
    _check_config(cls, arguments, layer)
    model = _check_symbolic(layer, x, output_shape)
    np.testing.assert_allclose(to_numpy(model(x)), expected, atol=1e-6)
    for policy, tolerance in _INEXACT.items():
        _check_low_precision(cls, arguments, layer, x, policy, tolerance, expected)


def check_saving(cls, arguments, x, directory):
    """Save a model of the layer and its weights separately, and reload both."""
    layer = cls(**arguments)
    model = _functional(layer, x)
    expected = to_numpy(model(x))
    model.save(directory / "model.keras")
    reloaded = keras.saving.load_model(directory / "model.keras")
    np.testing.assert_allclose(to_numpy(reloaded(x)), expected, atol=1e-6)
    model.save_weights(directory / "some.weights.h5")
    other = _functional(cls(**arguments), x)
    other.load_weights(directory / "some.weights.h5")
    np.testing.assert_allclose(to_numpy(other(x)), expected, atol=1e-6)


def check_training(cls, arguments, x):
    """Check that a training step changes each trainable weight."""
    layer = cls(**arguments)
    model = _functional(layer, x)
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss="mse", jit_compile=False)
    before = [to_numpy(v.value) for v in layer.trainable_variables]
    target = np.random.default_rng(1).normal(size=to_numpy(model(x)).shape)
    model.train_on_batch(x, target)
    for variable, old in zip(layer.trainable_variables, before, strict=True):
        # The key's bias shifts all scores of a query equally, which softmax ignores.
        if not variable.path.endswith("key/bias"):
            assert np.abs(to_numpy(variable.value) - old).max() > 0, variable.path


def _check_config(cls, arguments, layer):
    config = layer.get_config()
    assert json.loads(json.dumps(config)).keys() == config.keys()
    assert cls.from_config(config).get_config() == config
    for name, value in arguments.items():
        assert config[name] == value
    serialized = keras.saving.serialize_keras_object(layer)
    assert serialized["registered_name"] == f"keras_albert>{cls.__name__}"
    assert type(keras.saving.deserialize_keras_object(serialized)) is cls


def _functional(layer, x):
    # Neither the batch nor the length is known in advance.
    inputs = keras.Input((None, *x.shape[2:]), dtype=str(x.dtype))
    return keras.Model(inputs, layer(inputs))


def _check_symbolic(layer, x, output_shape):
    model = _functional(layer, x)
    assert model.output_shape == (None, None, *output_shape[2:])
    assert model.outputs[0].dtype == "float32"
    return model


def _check_low_precision(cls, arguments, layer, x, policy, tolerance, expected):
    low = cls(**arguments, dtype=policy)
    low.build(x.shape)
    low.set_weights(layer.get_weights())
    output = low(x)
    assert keras.backend.standardize_dtype(output.dtype) == low.compute_dtype
    assert all(weight.dtype == "float32" for weight in low.weights)
    values = to_numpy(keras.ops.cast(output, "float32"))
    assert np.isfinite(values).all()
    assert np.abs(values - expected).max() < tolerance * max(1, np.abs(expected).max())
