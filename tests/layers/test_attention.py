import keras
import numpy as np
import pytest

from keras_albert.layers.attention import attend, attend_fused, fuses
from tests.compiled import to_numpy

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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_rows_of_padding_are_finite(dtype):
    values = heads(dtype)
    found = [explicit(values, MASK)[0]]
    # JAX supports float16 on some GPUs only.
    if dtype != "float16" or fuses(values[0], training=False):
        found.append(attend_fused(*values, keras.ops.convert_to_tensor(MASK)))
    for output in found:
        assert keras.backend.standardize_dtype(output.dtype) == dtype
        assert np.isfinite(to_numpy(keras.ops.cast(output, "float32"))).all()


@pytest.mark.skipif(keras.config.backend() != "torch", reason="of PyTorch alone")
def test_attention_in_double_precision():
    values, mask = heads("float64"), keras.ops.convert_to_tensor(MASK)
    found = attend_fused(*values, mask)
    assert keras.backend.standardize_dtype(found.dtype) == "float64"
    expected = attend_fused(*heads(), mask)
    np.testing.assert_allclose(to_numpy(found), to_numpy(expected), atol=1e-6)


def test_dropped_scores_do_not_contribute():
    query, key, value = heads()
    output, scores = attend(query, key, value, None, lambda scores: scores * 0)
    assert not to_numpy(output).any()
    assert to_numpy(scores).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("length", [128, 129])
def test_when_attention_is_fused(dtype, training, length):
    query = keras.ops.zeros((1, length, 1, 2), dtype)
    # This exception applies on a CPU only.
    is_slow = training and length == 128 and dtype != "float32"
    is_cpu = getattr(query, "is_cpu", True)
    is_fused = {
        "tensorflow": False,
        "jax": dtype == "bfloat16" or (dtype == "float32" and length == 128),
        "torch": not (is_slow and is_cpu),
    }
    assert fuses(query, training) == is_fused[keras.config.backend()]
