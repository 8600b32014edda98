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


def in_the_open(heads, mask):
    return attend(*heads, mask, lambda scores: scores)


@pytest.mark.parametrize("mask", [None, MASK, MASK & MASK.transpose(0, 1, 3, 2)])
def test_both_ways_compute_the_same(mask):
    expected, scores = to_numpy(in_the_open(heads(), mask))
    mask = None if mask is None else keras.ops.convert_to_tensor(mask)
    found = to_numpy(attend_fused(*heads(), mask))
    assert found.shape == SHAPE
    some = slice(None) if mask is None else slice(2)
    np.testing.assert_allclose(found[some], expected[some], atol=1e-6)
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_row_of_padding_gives_numbers(dtype):
    values = heads(dtype)
    found = [in_the_open(values, MASK)[0]]
    # JAX supports float16 on some GPUs only.
    if dtype != "float16" or fuses(values[0], training=False):
        found.append(attend_fused(*values, keras.ops.convert_to_tensor(MASK)))
    for output in found:
        assert keras.backend.standardize_dtype(output.dtype) == dtype
        assert np.isfinite(to_numpy(keras.ops.cast(output, "float32"))).all()


def test_what_drops_is_left_out_of_the_sum():
    query, key, value = heads()
    output, scores = attend(query, key, value, None, lambda scores: scores * 0)
    assert not to_numpy(output).any()
    assert to_numpy(scores).all()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("length", [128, 129])
def test_where_attention_is_left_to_the_backend(dtype, training, length):
    query = keras.ops.zeros((1, length, 1, 2), dtype)
    # On a CPU only.
    is_slow = training and length == 128 and dtype != "float32"
    is_cpu = getattr(query, "is_cpu", True)
    is_fused = {
        "tensorflow": False,
        "jax": dtype == "bfloat16" or (dtype == "float32" and length == 128),
        "torch": not (is_slow and is_cpu),
    }
    assert fuses(query, training) == is_fused[keras.config.backend()]
