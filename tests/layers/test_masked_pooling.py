import keras
import numpy as np
import pytest

from keras_albert.layers.masked_pooling import MaskedPooling

SEQUENCE = np.array([[[1.0, -5.0], [3.0, -7.0], [90.0, 80.0]]], "float32")


def pool(mode, sequence, mask):
    return keras.ops.convert_to_numpy(MaskedPooling(mode)(sequence, mask))


@pytest.mark.parametrize(
    ("mode", "mask", "expected"),
    [
        ("mean", [1, 1, 0], [2, -6]),
        ("max", [1, 1, 0], [3, -5]),
        ("cls", [1, 1, 0], [1, -5]),
        ("mean", [1, 0, 0], [1, -5]),
        ("mean", [0, 0, 0], [0, 0]),
    ],
)
def test_padding_is_ignored(mode, mask, expected):
    outputs = pool(mode, SEQUENCE, np.array([mask]))
    np.testing.assert_allclose(outputs, [expected], atol=1e-6)
    # Also if it contains NaN.
    if mask[0]:
        broken = np.where(np.array([mask])[..., None] == 1, SEQUENCE, np.nan)
        np.testing.assert_allclose(pool(mode, broken, np.array([mask])), [expected])


def test_config_and_errors():
    layer = MaskedPooling.from_config(MaskedPooling("max", name="mine").get_config())
    assert (layer.mode, layer.name) == ("max", "mine")
    with pytest.raises(ValueError, match="Received: 'sum'"):
        MaskedPooling("sum")


def test_the_mean_weighs_tokens():
    pooling = MaskedPooling("mean", inverse_frequency=0.5, vocabulary_size=4)
    mask, ids = np.array([[1, 1, 0]]), np.array([[2, 0, 3]])
    # Equal weights at first.
    outputs = keras.ops.convert_to_numpy(pooling(SEQUENCE, mask, ids))
    np.testing.assert_allclose(outputs, [[2, -6]], atol=1e-6)
    # Weights of 0.5 and 1.
    pooling.token_probabilities.assign([0.0, 1.0, 0.5, 1.0])
    outputs = keras.ops.convert_to_numpy(pooling(SEQUENCE, mask, ids))
    np.testing.assert_allclose(outputs, [[7 / 3, -19 / 3]], atol=1e-6)
    assert MaskedPooling.from_config(pooling.get_config()).inverse_frequency == 0.5
