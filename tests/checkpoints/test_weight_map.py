import keras
import numpy as np
import pytest

from keras_albert.checkpoints.weight_map import (
    TRANSPOSED,
    WeightMapping,
    dump_weights,
    load_weights,
    split_last,
    variables_by_path,
)

MAPPINGS = [
    WeightMapping("first/kernel", "a.weight", TRANSPOSED),
    WeightMapping("first/bias", "a.bias"),
    WeightMapping("second/kernel", "b.weight", split_last(2)),
    WeightMapping("second/bias", "b.bias", split_last(2)),
]
SHAPES = {"a.weight": (3, 2), "a.bias": (3,), "b.weight": (3, 2, 2), "b.bias": (2, 2)}


@pytest.fixture
def model():
    layers = [keras.layers.Dense(3, name="first"), keras.layers.Dense(4, name="second")]
    return keras.Sequential([keras.Input((2,)), *layers])


@pytest.fixture
def tensors():
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=SHAPES[name]).astype("float32") for name in SHAPES}


def test_paths_do_not_depend_on_where_the_model_is_made():
    class Outer(keras.layers.Layer):
        def build(self, input_shape):
            self.inner = keras.Sequential(
                [keras.Input((2,)), keras.layers.Dense(3, name="first")]
            )
            self.built = True

    outer = Outer(name="outer")
    outer.build((None, 2))
    assert outer.inner.weights[0].path.startswith("outer/")
    assert list(variables_by_path(outer.inner)) == ["first/kernel", "first/bias"]


def test_a_table_must_name_every_weight(model):
    *others, _ = MAPPINGS
    for mappings, odd in (
        (others, "second/bias"),
        ([*MAPPINGS, WeightMapping("third/bias", "c")], "third/bias"),
    ):
        with pytest.raises(ValueError, match=f"other weights than.*\n  {odd}"):
            dump_weights(model, mappings)


def test_low_precision_is_read(model, tensors):
    import ml_dtypes

    low = {name: value.astype(ml_dtypes.bfloat16) for name, value in tensors.items()}
    low["a.bias"] = tensors["a.bias"].astype("float16")
    load_weights(model, low, MAPPINGS)
    for name, value in dump_weights(model, MAPPINGS).items():
        np.testing.assert_array_equal(value, low[name].astype("float32"))


def test_numbers_too_large_for_the_model_are_refused(tensors):
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(3, name="first", dtype="float16")]
    )
    tensors = {name: tensors[name] for name in ("a.weight", "a.bias")}
    tensors["a.bias"][-1] = 1e6
    with pytest.raises(ValueError, match=r"not finite.*: a\.bias"):
        load_weights(model, tensors, MAPPINGS[:2])
